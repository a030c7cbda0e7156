"""What a kubelet registers with: etcd, an API server and a scheduler, as processes of a machine."""

import http
import json
from pathlib import Path

from tests.node.machine import Machine, until

DIRECTORY = "/run/control"
TOKEN = "let-me-in"
ETCD, ETCD_PEER = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
PORT = 6443
SERVER = f"https://127.0.0.1:{PORT}"
CERTIFICATE = f"{DIRECTORY}/certificates/apiserver.crt"  # which the API server makes for itself
KUBECONFIG = f"{DIRECTORY}/kubeconfig"
# Of a kubelet with an API server; none of its addresses may be of the loopback network. This one is nobody's.
NODE_ADDRESS = "192.0.2.1"
WITHOUT = (
    "ServiceAccount",  # the controller that makes accounts is not there
    "TaintNodesByCondition",  # nor the one that takes the taint away again
)


class Control:
    """Attributes: processes: in the order of their start."""

    def __init__(self, machine: Machine, program: Path) -> None:
        self._machine = machine
        self._program = str(program)
        self.processes = []

    def start(self) -> None:
        """Return when the API server is ready for a kubelet, and the scheduler runs."""
        machine = self._machine
        machine.path(DIRECTORY).mkdir(mode=0o700)
        machine.path(f"{DIRECTORY}/tokens").write_text(f'{TOKEN},everybody,1,"system:masters"\n')
        machine.path(f"{DIRECTORY}/key").write_text(machine.must(self._program, "key"))
        machine.path(KUBECONFIG).write_text(json.dumps(kubeconfig()))
        machine.must("busybox", "ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "lo")
        self._run(
            "etcd", f"--data-dir={DIRECTORY}/etcd", "--unsafe-no-fsync",
            f"--listen-client-urls={ETCD}", f"--advertise-client-urls={ETCD}",
            f"--listen-peer-urls={ETCD_PEER}", f"--initial-advertise-peer-urls={ETCD_PEER}",
            f"--initial-cluster=default={ETCD_PEER}",
        )  # fmt: skip
        self._run(
            "kube-apiserver", f"--etcd-servers={ETCD}", f"--cert-dir={DIRECTORY}/certificates",
            "--bind-address=127.0.0.1", f"--secure-port={PORT}", f"--advertise-address={NODE_ADDRESS}",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=198.51.100.0/24", "--service-account-issuer=https://node.test",
            f"--service-account-key-file={DIRECTORY}/key", f"--service-account-signing-key-file={DIRECTORY}/key",
            f"--token-auth-file={DIRECTORY}/tokens", "--authorization-mode=AlwaysAllow",
            f"--disable-admission-plugins={','.join(WITHOUT)}",
        )  # fmt: skip
        until(self._ready, 120, "the API server is ready")
        self._run("kube-scheduler", f"--kubeconfig={KUBECONFIG}", "--leader-elect=false", "--secure-port=0")

    def _run(self, *argv: str) -> None:
        self.processes.append(self._machine.start(argv[0], self._program, *argv))

    def _ready(self) -> bool:
        for process in self.processes:
            assert process.runs, f"{process.log.name} ended: {process.said[-2000:]}"
        if not self._machine.path(CERTIFICATE).exists():
            return False
        answer = self._ask("GET", "/readyz")
        return answer is not None and answer[0] == http.HTTPStatus.OK

    def get(self, path: str) -> dict:
        return self._must("GET", path)

    def create(self, path: str, what: dict) -> dict:
        return self._must("POST", path, what)

    def delete(self, path: str) -> dict:
        return self._must("DELETE", path)

    def _must(self, method: str, path: str, what: dict | None = None) -> dict:
        answer = self._ask(method, path, what)
        assert answer is not None, "the API server is gone"
        status, text = answer
        assert status < http.HTTPStatus.BAD_REQUEST, f"{method} {path}: {status}: {text}"
        return json.loads(text)

    def _ask(self, method: str, path: str, what: dict | None = None) -> tuple[int, str] | None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        body = None if what is None else json.dumps(what)
        return self._machine.fetch(f"{SERVER}{path}", method=method, body=body, headers=headers, trusted=CERTIFICATE)


def kubeconfig() -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": SERVER, "certificate-authority": CERTIFICATE}}],
        "users": [{"name": "it", "user": {"token": TOKEN}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
