"""The manifests for Kubernetes: they set what the server reads, and lead peers to the active server alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import yaml  # type: ignore[import-untyped]
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.endpoints import parse_remote_control_endpoint
from msmq.service.keys import TABLES
from tests.servers.prepared import PROJECT

_CONTAINERFILE = PROJECT / "packaging" / "container" / "Containerfile"


class ManifestTests(SynchronousTestCase):
    """packaging/kubernetes/msmq.yaml."""

    def setUp(self) -> None:
        text = (PROJECT / "packaging" / "kubernetes" / "msmq.yaml").read_text(encoding="utf-8")
        self.objects: dict[str, Any] = {each["kind"]: each for each in yaml.safe_load_all(text)}
        self.pods = self.objects["StatefulSet"]["spec"]
        [self.container] = self.pods["template"]["spec"]["containers"]

    def test_schemas_of_kubernetes(self) -> None:
        """Each object is what the schemas of Kubernetes allow, without an unknown field."""
        versions = kubernetes_validate.latest_version()
        for each in self.objects.values():
            kubernetes_validate.validate(each, versions, strict=True)
        self.objects["Service"]["spec"]["port"] = []
        with self.assertRaisesRegex(kubernetes_validate.ValidationError, "'port' was unexpected"):
            kubernetes_validate.validate(self.objects["Service"], versions, strict=True)

    def test_variables_are_keys_of_the_configuration(self) -> None:
        """Each variable is a key of a table, and the standby has a store that servers can share."""
        names = {each["name"] for each in self.container["env"]}
        known = {f"MSMQ_{table}_{key}".upper() for table, keys in TABLES.items() for key in keys}
        self.assertEqual(names - known, set())
        self.assertIn("MSMQ_STORAGE_STANDBY", names)
        self.assertIn("MSMQ_STORAGE_BACKEND", names)

    def test_service_selects_the_ready_pod(self) -> None:
        """The Service and the network policy select the pods, by ports that the container has."""
        labels = self.pods["template"]["metadata"]["labels"]
        service = self.objects["Service"]["spec"]
        self.assertEqual(service["selector"], labels)
        self.assertNotIn("publishNotReadyAddresses", service)
        self.assertEqual(self.pods["selector"]["matchLabels"], labels)
        self.assertEqual(self.objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"], labels)
        ports = {port["name"]: (port["containerPort"], port["protocol"]) for port in self.container["ports"]}
        for port in service["ports"]:
            self.assertEqual(ports[port["targetPort"]], (port["port"], port["protocol"]))

    def test_a_standby_blocks_nothing(self) -> None:
        """No step of a start or an update waits until every pod is ready: a standby never is."""
        self.assertEqual(self.pods["replicas"], 2)
        self.assertEqual(self.pods["podManagementPolicy"], "Parallel")
        self.assertEqual(self.pods["updateStrategy"], {"type": "OnDelete"})

    def test_probes_and_paths_are_those_of_the_image(self) -> None:
        """The probes use the web port, and the volume is the data directory of the image."""
        image = Path(_CONTAINERFILE).read_text(encoding="utf-8")
        for probe, path in ("readinessProbe", "/health/ready"), ("livenessProbe", "/health/live"):
            expected = {"path": path, "port": "web", "scheme": "HTTPS"}
            self.assertEqual(self.container[probe]["httpGet"], expected)
        self.assertIn("MSMQ_QUEUE_MANAGER_DATA=/var/lib/msmq", image)
        self.assertIn("/var/lib/msmq", [mount["mountPath"] for mount in self.container["volumeMounts"]])
        self.assertEqual(self.pods["template"]["spec"]["securityContext"]["runAsUser"], 1801)

    def test_the_web_port_has_tls_and_tokens_of_secrets(self) -> None:
        """Other pods reach the web port, with the files of Secrets that not every user can read."""
        values = {each["name"]: each.get("value", "") for each in self.container["env"]}
        web = parse_remote_control_endpoint(values["MSMQ_LISTEN_WEB"])
        assert web is not None
        self.assertFalse(web.is_loopback)
        files = re.findall(r"Key=(/[^:]+)", web.description)
        files.append(values["MSMQ_SECURITY_CONTROL_TOKEN_FILE"])
        mounts = {each["mountPath"]: each["name"] for each in self.container["volumeMounts"]}
        volumes = {each["name"]: each for each in self.pods["template"]["spec"]["volumes"]}
        self.assertEqual(len(files), 3)
        for file in files:
            secret = volumes[mounts[str(Path(file).parent)]]["secret"]
            self.assertEqual(secret["defaultMode"] & 0o007, 0, file)
        ports = {each["name"]: each["containerPort"] for each in self.container["ports"]}
        self.assertEqual(ports["web"], web.port)
        policy = self.objects["NetworkPolicy"]["spec"]["ingress"]
        [scrape] = [rule for rule in policy if {"port": web.port, "protocol": "TCP"} in rule["ports"]]
        self.assertTrue(scrape["from"])

    def test_the_pod_monitor_scrapes_the_web_port(self) -> None:
        """It selects the pods, and sends the token of the Secret over TLS."""
        text = (PROJECT / "packaging" / "kubernetes" / "podmonitor.yaml").read_text(encoding="utf-8")
        monitor = yaml.safe_load(text)
        self.assertEqual(monitor["kind"], "PodMonitor")
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], self.pods["selector"]["matchLabels"])
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        self.assertEqual(
            (endpoint["port"], endpoint["path"], endpoint["scheme"]), ("web", "/metrics", "https")
        )
        volumes = {each["name"]: each for each in self.pods["template"]["spec"]["volumes"]}
        credentials, trust = endpoint["authorization"]["credentials"], endpoint["tlsConfig"]["ca"]["secret"]
        self.assertEqual(credentials["name"], volumes["web-tokens"]["secret"]["secretName"])
        self.assertEqual(trust["name"], volumes["web-tls"]["secret"]["secretName"])
        # The volume leaves the bare token out.
        self.assertNotIn(credentials["key"], str(volumes["web-tokens"]["secret"]["items"]))
