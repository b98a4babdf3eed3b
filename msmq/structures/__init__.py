"""[MS-MQMQ]: every structure and every name that the protocols share.

One file per structure; frozen values with C{read} and C{write}.
"""
