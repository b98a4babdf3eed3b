"""The recording proxy: relays sessions between queue managers, records and reports what passes."""
