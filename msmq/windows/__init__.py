"""Security descriptors, SDDL, SIDs, conditions and access masks. [MS-DTYP]."""
