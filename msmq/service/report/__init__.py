"""The configuration of a server for operators: values, where they are set, what a reload would do."""
