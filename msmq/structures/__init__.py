"""Structures and names that the protocols share: format names, packet headers, directory values. [MS-MQMQ].

One file per structure; frozen values with C{read} and C{write}. Nothing is re-exported here: a structure is
imported from the file that is named after it.

Results of operations: L{msmq.structures.status}, the status codes and the error that carries one.

Names: L{msmq.structures.names.path_name} parses path names; L{msmq.structures.names.format_name} parses
format names, with direct ones in L{msmq.structures.names.direct_format_name}; both use the rules for
characters and lengths in L{msmq.structures.names.name_text}.

Parts of packets: L{msmq.structures.identifiers}, L{msmq.structures.packet.message_class} and
L{msmq.structures.names.queue_names}.

Headers: L{msmq.structures.packet.base_header} begins every packet on a session;
L{msmq.structures.packet.internal_header} and L{msmq.structures.packet.session_header} belong to sessions;
L{msmq.structures.packet.user_header}, L{msmq.structures.packet.transaction_header},
L{msmq.structures.packet.security_header}, L{msmq.structures.packet.message_properties_header},
L{msmq.structures.packet.debug_header}, L{msmq.structures.packet.soap_header} and
L{msmq.structures.packet.multi_queue_format_header} make up a message.

Messages: L{msmq.structures.packet.user_message} is one as a value;
L{msmq.structures.packet.user_message_view} reads fields from the bytes of one without unpacking it.

Values in the directory: L{msmq.structures.directory.public_keys} with
L{msmq.structures.directory.public_key_blob}, L{msmq.structures.directory.user_sign_certs} and
L{tests.structures.names.ta_address}; L{msmq.structures.directory.simple_blob} is the key that goes with an
encrypted message.

Values of management and remote procedure calls: L{msmq.structures.management},
L{msmq.structures.prop_variant} and L{tests.structures.names.queue_format}.
L{msmq.structures.ndr} lays them out.
"""
