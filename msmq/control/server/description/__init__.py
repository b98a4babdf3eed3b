"""The description of the control API in OpenAPI 3.1, generated from its routes and types."""
