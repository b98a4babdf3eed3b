"""[queues] journal_on = "acknowledgement": the journal has what was acknowledged as arrived, or as
received.
"""
