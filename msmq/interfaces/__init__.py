"""The zope interfaces behind which storage, routing and the clock are replaceable.
"""
