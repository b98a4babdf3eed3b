"""Descriptions of LDAP result codes. RFC 4511 4.1.9 and appendix A."""

from __future__ import annotations

import re
from typing import Final

from msmq.directory.ldap.transport.wire import Result

SUCCESS: Final = 0
OPERATIONS_ERROR: Final = 1
TIME_LIMIT_EXCEEDED: Final = 3
SIZE_LIMIT_EXCEEDED: Final = 4
REFERRAL: Final = 10
SASL_BIND_IN_PROGRESS: Final = 14
NO_SUCH_ATTRIBUTE: Final = 16
CONSTRAINT_VIOLATION: Final = 19
VALUE_EXISTS: Final = 20
NO_SUCH_OBJECT: Final = 32
NO_NAME: Final = 34
INVALID_CREDENTIALS: Final = 49
BUSY: Final = 51
UNAVAILABLE: Final = 52
UNWILLING: Final = 53
ALREADY_EXISTS: Final = 68

_NAMES: Final = {
    1: "operationsError",
    2: "protocolError",
    3: "timeLimitExceeded",
    4: "sizeLimitExceeded",
    7: "authMethodNotSupported",
    8: "strongerAuthRequired",
    10: "referral",
    11: "adminLimitExceeded",
    12: "unavailableCriticalExtension",
    13: "confidentialityRequired",
    14: "saslBindInProgress",
    16: "noSuchAttribute",
    17: "undefinedAttributeType",
    18: "inappropriateMatching",
    19: "constraintViolation",
    20: "attributeOrValueExists",
    21: "invalidAttributeSyntax",
    32: "noSuchObject",
    33: "aliasProblem",
    34: "invalidDNSyntax",
    36: "aliasDereferencingProblem",
    48: "inappropriateAuthentication",
    49: "invalidCredentials",
    50: "insufficientAccessRights",
    51: "busy",
    52: "unavailable",
    53: "unwillingToPerform",
    54: "loopDetect",
    64: "namingViolation",
    65: "objectClassViolation",
    66: "notAllowedOnNonLeaf",
    67: "notAllowedOnRDN",
    68: "entryAlreadyExists",
    69: "objectClassModsProhibited",
    71: "affectsMultipleDSAs",
    80: "other",
}

_REASONS: Final = {
    "525": "no such account",
    "52e": "wrong password",
    "530": "the account may not log on at this time",
    "531": "the account may not log on at this computer",
    "532": "the password has expired",
    "533": "the account is disabled",
    "701": "the account has expired",
    "773": "the password must be changed first",
    "775": "the account is locked out",
}
"""The error code after C{data} in Active Directory's text for refused credentials. [MS-ERREF] 2.2."""

_DATA: Final = re.compile(r"\bdata ([0-9a-f]{3}),")


def describe(result: Result) -> str:
    """A result for an administrator: number, name, meaning, and the server's text."""
    name = _NAMES.get(result.code, "a code that RFC 4511 does not define")
    said = f" ({result.message})" if result.message else ""
    return f"LDAP result {result.code}, {name}{_meaning(result)}{said}"


def _meaning(result: Result) -> str:
    if result.code != INVALID_CREDENTIALS:
        return ""
    found = _DATA.search(result.message)
    return f": {_REASONS.get(found[1], 'wrong name or password') if found else 'wrong name or password'}"
