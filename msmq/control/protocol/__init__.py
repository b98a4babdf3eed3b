"""Protocol shared by server and client of the control API: records and refusals."""
