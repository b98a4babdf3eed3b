"""Members of an enterprise, their roles, sites and routing links, set by an administrator in a directory.

L{planning<msmq.directory.ldap.enrollment.plan>} and L{links<msmq.directory.ldap.enrollment.links>} decide
which entries have to change, from what there is; L{performing<msmq.directory.ldap.enrollment.enrollment>}
reads that, and makes the changes or answers with them.
"""
