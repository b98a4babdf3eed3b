"""The sites, links and next hops of [MS-MQBR]."""
