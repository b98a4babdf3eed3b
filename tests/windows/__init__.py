"""Security descriptors, SDDL and access checks ([MS-DTYP])."""
