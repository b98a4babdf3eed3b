"""Shows C{twistd} the access control."""

from opening_hours import OpeningHoursFactory

opening_hours = OpeningHoursFactory()
