"""Where fuzzing begins: the worked examples of the documents, and one of everything that is built."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from msmq.discovery.packets import DirectoryServer, TopologyClientRequest, TopologyServerReply
from msmq.structures.algorithms import EncryptionAlgorithm
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import BASE_PROVIDER, MqdsPublicKey, MqdsPublicKeys, ProviderType
from msmq.structures.directory.simple_blob import SessionKeyAlgorithm, SimpleBlob
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.internal.ping import Ping
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.kept_packet import kept_headers
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import (
    MQFDirectQueueFormatName,
    MQFDistributionQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader, SenderIdType
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.prop_variant import PropVariant, VarEnum
from msmq.windows.sddl import parse_sddl
from msmq.wire.sid import parse_sid
from tests.builders import (
    ALPHA,
    BETA,
    GAMMA,
    establish,
    parameters,
    session_ack,
    session_header,
    user_packet,
)
from tests.decoding.bodies.vectors import vectors as bodies
from tests.decoding.builders import pcap, pcapng, tcp
from tests.directory.ldap.encoding import element
from tests.fuzz.seeds_conditions import CONDITIONS, resource_attributes
from tests.fuzz.seeds_conversations import control_requests, queue_managers
from tests.fuzz.targets.bodies import BODY_TYPES, DECODERS
from tests.structures.names.queue_format import QueueFormat
from tests.structures.names.ta_address import TaAddress
from tests.vectors import vector

SID: Final = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")
DIRECT: Final = DirectQueueFormatName("OS:beta\\private$\\orders")
ELEMENT: Final = MQFDirectQueueFormatName("OS:beta\\private$\\orders")
PLAIN: Final = UserMessage(
    BaseHeader(),
    UserHeader(ALPHA, destination_kind=QueueNameKind.DIRECT, destination_queue=DIRECT),
    MessagePropertiesHeader(b"body", "label"),
)
FULL: Final = attrs.evolve(
    PLAIN,
    user=attrs.evolve(
        PLAIN.user,
        is_recoverable=True,
        admin_kind=QueueNameKind.DIRECT,
        admin_queue=DIRECT,
        response_kind=QueueNameKind.PUBLIC,
        response_queue=PublicQueueFormatName(GAMMA),
        connector_type=GAMMA,
    ),
    properties=attrs.evolve(PLAIN.properties, flags=0x0F, extension_data=b"extension"),
    transaction=TransactionHeader(TxSequenceID(1, 2), 1),
    security=SecurityHeader(
        SenderIdType.SID,
        SID,
        b"key" * 4,
        b"signature",
        b"certificate",
        ProviderInfo(1, "provider"),
        is_body_encrypted=True,
    ),
    debug=DebugHeader(GAMMA),
    soap=SoapHeader("header", "body"),
    multi_queue_format=MultiQueueFormatHeader.of(
        [PublicQueueFormatName(GAMMA), ELEMENT, PrivateQueueFormatName(GAMMA, 7)],
        [MQFDistributionQueueFormatName(GAMMA)],
        [ELEMENT],
        b"signed",
    ),
)
NAMES: Final = (
    f"PUBLIC={GAMMA};JOURNAL",
    f"PRIVATE={GAMMA}\\0000000F",
    "DIRECT=OS:h\\private$\\q;sub",
    "DIRECT=OS:h\\system$;DEADXACT",
    "DIRECT=TCP:10.0.0.1\\q;JOURNAL",
    "DIRECT=TCP:2001:db8::7\\private$\\q",
    "DIRECT=IPX:00000001:0080C7112233\\q",
    "DIRECT=HTTP://h:8080/msmq\\private$\\q",
    "DIRECT=HTTPS://h/msmq/q",
    f"DL={GAMMA}@dom.example",
    f"MACHINE={GAMMA};DEADLETTER",
    f"CONNECTOR={GAMMA};XACTONLY",
    "MULTICAST=234.1.2.3:8001",
)


def _packets() -> list[bytes]:
    envelope = AckEnvelope(ALPHA, BETA, 7)
    return [
        vector("mqqb-4.1.7-user-message"),
        user_packet(b"body", label="label"),
        user_packet(recoverable=True, private_number=4, queue_manager=BETA),
        PLAIN.to_bytes(),
        FULL.to_bytes(),
        OrderAck(envelope, TxSequenceID(1, 2), 3, 2).to_bytes(),
        FinalAck(envelope, 0x8000, TxSequenceID(1, 2), 3, 2, ALPHA, 9).to_bytes(),
        *(attrs.evolve(PLAIN, **{name: getattr(FULL, name)}).to_bytes() for name in ("debug", "soap")),
        *(
            attrs.evolve(PLAIN, **{name: getattr(FULL, name)}).to_bytes()
            for name in ("security", "multi_queue_format")
        ),
    ]


def _internal() -> list[bytes]:
    return [
        *(
            vector(f"mqqb-4.1.{name}")
            for name in (
                "3-establish-connection-request",
                "4-establish-connection-response",
                "5-connection-parameters-request",
                "6-connection-parameters-response",
                "8-session-ack",
            )
        ),
        establish(ALPHA, BETA, refused=True),
        parameters(refused=True),
        session_ack(session_header(1, 1, recoverable_base=1, recoverable_flags=1, recoverable_sent=1)),
    ]


def _carrying(packet: bytes, *, counted: bool) -> bytes:
    flags = int.from_bytes(packet[2:4], "little") | 0x10
    size = len(packet) + 16 * counted
    rest = packet[12:] + session_header(1, 1)
    return packet[:2] + flags.to_bytes(2, "little") + packet[4:8] + size.to_bytes(4, "little") + rest


def _streams() -> Iterable[bytes]:
    for size in (0, 6, 15, 63, 255):
        yield bytes([size]) + b"".join(_internal())
        for packet in _packets():
            yield bytes([size]) + packet + packet
            for counted in (False, True):
                yield bytes([size]) + _carrying(packet, counted=counted) + packet


def _user_messages() -> Iterable[bytes]:
    for packet in _packets():
        yield b"\1" + packet
        yield b"\0" + packet[2:4] + packet[16:]
        yield b"\1" + packet + kept_headers(".\\private$\\letters")
        yield b"\1" + _carrying(packet, counted=True)


def _internal_packets() -> Iterable[bytes]:
    for packet in (*_internal(), *_packets()):
        yield b"\0" + packet
    for number, packet in enumerate((establish(ALPHA, BETA), parameters(), session_ack(session_header()))):
        yield bytes([1 | number << 1]) + packet[16:]


def _datagrams() -> Iterable[bytes]:
    for name in (
        "mqqb-4.1.1-ping-request",
        "mqqb-4.1.2-ping-response",
        "mqsd-4-topology-client-request",
        "mqsd-4-topology-server-reply-other-site",
        "mqsd-4-topology-server-reply-same-site",
    ):
        yield vector(name)
    request = vector("mqqb-4.1.1-ping-request")
    at = request.index(Ping.from_bytes(request).cookie.to_bytes(4, "little"))
    yield request[:at] + b"\7\0\0\0" + request[at + 4 :]
    yield TopologyClientRequest(ALPHA, BETA, GAMMA).to_bytes()
    servers = (DirectoryServer("DC1", True, False), DirectoryServer("DC2", False, True))
    yield TopologyServerReply(ALPHA, (BETA, GAMMA), GAMMA, servers).to_bytes()


def _names() -> Iterable[bytes]:
    for reader in (0, 128, 1, 131):
        for text in (*NAMES, ",".join(NAMES[4:7])):
            yield bytes([reader]) + text.encode()
    for text in ("OS:h\\private$\\q", "TCP:10.0.0.1\\q", "HTTP://h/msmq/q", "os:h\\system$;DEADLETTER"):
        yield b"\2" + text.encode()
    for text in (".\\private$\\q", "host\\q;sub", "host\\system$;JOURNAL", "host\\private$\\q;JOURNAL"):
        yield b"\3" + text.encode()
    for text in (
        f"{{{ALPHA}}}\\7",
        "IP=10.0.0.1",
        "IPv6=::1",
        f"FOREIGN={GAMMA}",
        "234.1.1.1:80",
        "S-1-5-32-544",
    ):
        yield b"\4" + text.encode()


VARIANTS: Final = (
    (VarEnum.VT_EMPTY, None),
    (VarEnum.VT_I1, -7),
    (VarEnum.VT_UI2, 7),
    (VarEnum.VT_UI4, 7),
    (VarEnum.VT_I8, -7),
    (VarEnum.VT_BOOL, True),
    (VarEnum.VT_LPWSTR, "text"),
    (VarEnum.VT_BLOB, b"blob"),
    (VarEnum.VT_CLSID, GAMMA),
    (0x1011, b"bytes"),
    (0x1013, (1, 2, 3)),
    (0x101F, ("a", "b")),
    (0x1048, (ALPHA, GAMMA)),
    (0x100C, (PropVariant(VarEnum.VT_UI4, 7), PropVariant(0x101F, ("a", "b")))),
)


def _directory() -> Iterable[bytes]:
    blob = PublicKeyBlob((1 << 511) + 12345, 65537)
    key = MqdsPublicKey(BASE_PROVIDER, ProviderType.PROV_RSA_FULL, blob)
    certificate = MqUserSignCert.of(b"certificate", ALPHA)
    for number, value in (
        (0, MqdsPublicKeys((key, key))),
        (1, MqUserSignCerts((certificate, certificate))),
        (2, key),
        (3, blob),
        (5, TaAddress.ip("10.0.0.1")),
        (5, TaAddress.foreign(GAMMA)),
        *((6, PropVariant(kind, value)) for kind, value in VARIANTS),
        *((7, QueueFormat(parse_format_name(name))) for name in NAMES if not name.startswith("DIRECT=HTTP")),
    ):
        yield bytes([number]) + value.to_bytes()
    yield b"\xff" + SID


SDDL: Final = (
    "O:BAG:SYD:(A;;0x3f;;;WD)(D;;0x2;;;AN)",
    "O:S-1-5-21-1-2-3-1001G:DUD:PAI(A;CIOI;GA;;;OW)(A;IO;GR;;;CO)(D;ID;GW;;;S-1-5-7)S:(AU;SAFA;WD;;;WD)",
    "D:NO_ACCESS_CONTROL",
    "D:",
    f"O:PSD:(OA;;CCDC;{GAMMA};;BU)(OD;;RP;;{GAMMA};AU)(A;NP;RCWDWO;;;PS)",
    "D:(XD;;0x4;;;AU;(Not_Member_of {SID(BU), SID(BA)} || !(Exists Title)))",
    'S:(RA;CI;;;;WD;("a%0020b",TS,0x10002,"x","(;)"))(RA;;;;;S-1-1-0;( "s" , TD , 0x0 , BA , S-1-5-18 ))',
    'S:(RA;;;;;WD;("i",TI,0x0,-5,0x10,010))(RA;;;;;WD;("u",TU,0x0,5))(RA;;;;;WD;("x",TX,0x0,#0a,#))'
    '(RA;;;;;WD;("b",TB,0x3f,1,0))',
    'D:(XA;;GA;;;WD;(@User.a%0020b == {"x", -0x5, #0a} && (@Resource.c > @Device.d || e Any_of 017)))',
)


def _descriptors() -> Iterable[bytes]:
    domain = parse_sid("S-1-5-21-1-2-3")
    for text in (*SDDL, *(f"D:(XA;;0x4;;;WD;{condition})" for condition in CONDITIONS)):
        yield b"\1" + text.encode()
        yield b"\0" + attrs.evolve(parse_sddl(text, domain), sacl=resource_attributes()).to_bytes()


CERTIFICATES: Final = (
    "MIIBjzCB+aADAgECAgEHMA0GCSqGSIb3DQEBCwUAMA4xDDAKBgNVBAMMA2FubjAeFw0yMDAxMDEwMDAwMDBaFw00OTAxMDEw"
    "MDAwMDBaMA4xDDAKBgNVBAMMA2FubjCBnzANBgkqhkiG9w0BAQEFAAOBjQAwgYkCgYEAkpe6oQReoMlvWd5jZ9BBVqXEMRlP"
    "h56bjwrv6tFZFWEgxXfA83sIK0pUwIxebWzEnzIQA0b/7xRWUcDREpEa8GAAqLiVQVlnlzpLiMsihC1ry8u36jJU+pSRP2A0"
    "eBlOgHtC3WnE+r5zE5Tk0sYgekIDnrC87HZlZ748w8RMcgMCAwEAATANBgkqhkiG9w0BAQsFAAOBgQA7UYJsByKokWX9ielJ"
    "lVyYJ5tMDwK4ssGZboZkh5l/QocsP6nPEfv7eiCvLesuwzUk+eALHMng97P3v+6oswjV+q/sMRX6I7v301ipI8QLA2ViJBp4"
    "K4csierQ5n8Jyh2+zOtpIlVOYHcx1v3Jwlt6zgZHoTxDM5UevH7m/zjm9Q==",
    "MIIBCDCBr6ADAgECAgEHMAoGCCqGSM49BAMCMA4xDDAKBgNVBAMMA2FubjAeFw0yMDAxMDEwMDAwMDBaFw00OTAxMDEwMDAw"
    "MDBaMA4xDDAKBgNVBAMMA2FubjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOJIjh8X15gOCs4WjXCFHolrd/B5cgmS2jL0"
    "5k6+MhBcOnDP+DSE47pbnr80XtZFVEdXjylb8+DfGxxbrr4xuw0wCgYIKoZIzj0EAwIDSAAwRQIgFlnz+C67cQ+EtvNqT0QX"
    "j+dqYdsful9YuwdA8KLiO0oCIQDOS9nUwk+yaghDl90sjRap48HppeSf0ilUhg8KSY+Ghg==",
)
"""One with an RSA key, one with a key on a curve, in base64."""


def _certificates() -> Iterable[bytes]:
    for position, text in enumerate(CERTIFICATES):
        data = base64.b64decode(text)
        for choice in range(3):
            yield bytes([0, choice]) + data
            yield bytes([1, choice]) + data
        lines = base64.encodebytes(data).decode("ascii")
        yield (
            bytes([1, position]) + f"-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n".encode()
        )
    blob = SimpleBlob(SessionKeyAlgorithm.AES_256, bytes(range(128))).to_bytes()
    for choice in range(5):
        yield bytes([2, choice]) + blob
    for choice in range(len(EncryptionAlgorithm) + 1):
        yield bytes([3, choice]) + bytes(range(64))


def step(kind: int, payload: bytes) -> bytes:
    """One step of a session."""
    return bytes([kind]) + len(payload).to_bytes(2, "little") + payload


def _sessions() -> Iterable[bytes]:
    acknowledged = step(5, b"\0\1\xff\xff\xff\xff\x08")
    for first in (0, 1, 2, 3):
        yield bytes([first, 8]) + b"".join(step(0, packet) for packet in _internal())
        yield bytes([first, 8]) + step(0, establish(ALPHA)[:300]) + step(0, establish(ALPHA)[300:])
        yield bytes([first, 8]) + step(15, ALPHA.bytes_le) + step(0, parameters()) + step(0, user_packet())
        opened = bytes([first | 4, 8])
        for packet in _packets():
            yield opened + step(0, packet) + step(0, _carrying(packet, counted=first > 1))
        yield opened + step(9, b"\7") + acknowledged + step(10, b"\7") + acknowledged + step(8, b"\5")
        yield opened + step(7, b"\x71") + step(11, b"\7") + step(8, b"\2") + step(13, b"\1") + step(9, b"\1")
        yield opened + step(9, b"\7") + step(12, b"\1") + step(6, b"\x70") + step(12, b"\0") + step(14, b"\1")
        yield opened + step(13, b"\2") + step(13, b"\2") + step(8, b"\3") + step(9, b"\7") + step(8, b"\2")
        yield opened + step(9, b"\2") + step(4, session_header(1, 0)) + step(14, b"\0") + step(8, b"\0")


def _captures() -> Iterable[bytes]:
    peer, server = ("127.0.0.9", 4000), ("127.0.0.2", 1801)
    packets = [*_internal()[:2], user_packet(b"body")]
    frames, sequence = [], 0
    for packet in packets:
        frames.append(bytes(12) + b"\x08\x00" + tcp(peer, server, sequence, packet))
        sequence += len(packet)
    yield b"\0" + pcap(frames)
    yield b"\0" + pcapng([(0, frame) for frame in frames], [1])
    yield b"\1" + b"".join(packets).hex(" ").encode()
    data = packets[0][:200]
    lines = [data[start : start + 16] for start in range(0, len(data), 16)]
    xxd = [f"{16 * number:08x}: {line.hex(' ', 2)}  {'.' * len(line)}" for number, line in enumerate(lines)]
    hexdump = [
        f"{16 * number:08x}  {line.hex(' ')}  |{'.' * len(line)}|" for number, line in enumerate(lines)
    ]
    for choice in (b"\0", b"\1"):
        yield choice + "\n".join(xxd).encode()
        yield choice + "\n".join([*hexdump, f"{len(data):08x}"]).encode()
        yield choice + b"# a comment\n" + data.hex(":").encode() + b" 0x10 \\x10, zz"
    yield b"\0" + packets[0][:300] + packets[2][4:] + packets[1]
    yield b"\0" + pcap(frames[1:]) + b"cut"
    yield b"\0" + b"".join(packets).hex().encode()
    for data in (*_datagrams(), b"".join(packets), b"rubbish" + b"".join(packets)):
        yield b"\0" + data


def _frames_of_wcf() -> Iterable[bytes]:
    via = b"net.msmq://h/q"
    soap, text = bodies()["soap"].data, b"<Envelope><Body>x</Body></Envelope>"
    size = len(soap)
    sized = b"\6" + bytes((size & 0x7F | 0x80, size >> 7)) + soap
    for mode, rest in (
        (4, b"\3\7" + soap),
        (4, b"\3\7" + bodies()["nbfx"].data),
        (3, b"\3\7\x0c" + sized * 2 + b"\7"),
        (4, b"\3\3" + text),
        (4, b"\4\x08text/xml" + text),
        (4, b"\3\x08\3\2Bo\x42\2\x42\1\x99\1x\1"),
    ):
        yield b"\0\1\0\1" + bytes((mode, 2, len(via))) + via + rest


def _bodies() -> Iterable[bytes]:
    for framed in _frames_of_wcf():
        yield b"\0\0\0" + framed
    for body in bodies().values():
        for choice in range(len(DECODERS.names)):
            yield bytes([choice, BODY_TYPES.index(body.body_type), 0]) + body.data[:1500]
    headers = (
        b"<ArrayOfHeaderInfo><HeaderInfo><Key>NServiceBus.ContentType</Key></HeaderInfo></ArrayOfHeaderInfo>"
    )
    yield bytes([0, 0, len(headers)]) + b'{"order": 7}' + headers
    yield b"\0\0\0" + b'<?xml version="1.0"?><order id="7"><box>2</box></order>'
    yield b"\0\2\0" + "text".encode("utf-16-le")


def _ldap_answers() -> Iterable[bytes]:
    def entry(number: int, name: bytes, values: Sequence[bytes]) -> bytes:
        attribute = element(4, b"member") + element(0x31, b"".join(element(4, each) for each in values))
        held = element(0x64, element(4, name) + element(0x30, element(0x30, attribute)))
        return element(0x30, element(2, bytes([number])) + held)

    def result(number: int, tag: int, rest: bytes = b"", controls: bytes = b"") -> bytes:
        ended = element(tag, element(10, b"\0") + element(4, b"") + element(4, b"said") + rest)
        return element(0x30, element(2, bytes([number])) + ended + controls)

    page = element(0x30, element(2, b"\0") + element(4, b"cookie"))
    control = element(0x30, element(4, b"1.2.840.113556.1.4.319") + element(1, b"\xff") + element(4, page))
    referral = element(0xA3, element(4, b"ldap://dc.example.com"))
    for size in (0, 7, 255):
        yield (
            bytes([size])
            + entry(1, b"CN=x", (b"a", b"b" * 200))
            + result(1, 0x65, b"", element(0xA0, control))
        )
        yield bytes([size]) + result(2, 0x67, referral) + result(1, 0x61, element(0x87, b"token"))
        yield bytes([size]) + element(0x30, element(2, b"\3") + element(0x73, b"")) + result(3, 0x65)
        yield bytes([size]) + result(0, 0x78, element(0x8A, b"1.3.6.1.4.1.1466.20036"))
    yield b"\xff\x30\x84\x02\0\0\0" + entry(1, b"CN=x", (b"a" * 99,))[2:]


_SEEDS: Final[Mapping[str, Callable[[], Iterable[bytes]]]] = {
    "stream": _streams,
    "user_messages": _user_messages,
    "internal_packets": _internal_packets,
    "datagrams": _datagrams,
    "names": _names,
    "directory": _directory,
    "ldap_answers": _ldap_answers,
    "descriptors": _descriptors,
    "certificates": _certificates,
    "sessions": _sessions,
    "captures": _captures,
    "bodies": _bodies,
    "queue_managers": queue_managers,
    "control_requests": control_requests,
}


def seeds(target: str) -> list[bytes]:
    """The initial inputs of a target."""
    return list(_SEEDS[target]())
