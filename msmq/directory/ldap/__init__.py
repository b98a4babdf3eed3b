"""A directory behind LDAP: Active Directory, or a server that knows our schema, as [MS-MQDSSM] maps it.

Only L{msmq.directory.ldap.factory} can be imported without ldaptor, which the extra C{msmq[ldap]} brings.
"""

from msmq.directory.ldap.factory import LdapDirectoryFactory, LdapsDirectoryFactory, ldap_directory

__all__ = ["LdapDirectoryFactory", "LdapsDirectoryFactory", "ldap_directory"]
