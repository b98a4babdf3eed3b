"""What server and client of the control API share: records and refusals."""
