"""Pure core of the record log: format, recovery and planning, without files, clock or reactor."""
