"""Directory discovery of [MS-MQSD]."""
