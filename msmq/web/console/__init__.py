"""The web console: read-only pages about one queue manager, in plain HTML without scripts.

The pages read the same interfaces as the control API, in process. No page loads anything from another host.
Who may read the pages is decided before they are rendered (L{msmq.web.site}).
"""
