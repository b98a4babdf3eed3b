"""Access to the web endpoint: who sends a request, and what it may do.

L{WebRequest<msmq.web.access.request.WebRequest>} identifies its caller when its head is complete: by the
token in its C{Authorization} header, by the session cookie of a browser that has logged in, or, on a loopback
endpoint without tokens, as a local caller with the role of C{[web] anonymous}. A page uses
L{WebAccess<msmq.web.access.web_access.WebAccess>}:

    identity = access.require(request, Role.READER)     # raises MQError: 401 or 403, or a missing CSRF token
    if identity.may(Role.OPERATOR):                     # show the button
        ...
    fields = request.form()                             # of a POST; access.require has checked its CSRF token

    <form method="post" action="/queue/purge">
    <input type="hidden" name="csrf" value="{{ identity.csrf }}">

The routes of the console are checked before their handlers, by the table
L{PAGE_ROLES<msmq.web.console.page_roles.PAGE_ROLES>}; a POST that is missing there needs the role C{admin}.
A change is recorded with C{audit.change(request.caller, operation, work)}.
C{identity.read_only} is the reason why nothing can be changed, to be shown on every page; it is empty
otherwise. A script sends the CSRF token in the header C{X-CSRF-Token}, to pages and to C{/v1}.
"""
