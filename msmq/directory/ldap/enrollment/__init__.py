"""Enrollment: an administrator sets members of an enterprise, their roles, sites and routing links in a
directory.

L{planning<msmq.directory.ldap.enrollment.plan>} and L{links<msmq.directory.ldap.enrollment.links>} decide
which entries have to change, given the existing ones;
L{performing<msmq.directory.ldap.enrollment.enrollment>} reads these, and applies the changes or returns them.
"""
