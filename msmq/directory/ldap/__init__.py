"""LDAP directory provider: Active Directory, or a server with MSMQ's schema, mapped by [MS-MQDSSM].

Only L{msmq.directory.ldap.factory} can be imported without ldaptor, which the extra C{msmq[ldap]} brings.
"""

from msmq.directory.ldap.factory import LdapDirectoryFactory, LdapsDirectoryFactory, ldap_directory

__all__ = ["LdapDirectoryFactory", "LdapsDirectoryFactory", "ldap_directory"]
