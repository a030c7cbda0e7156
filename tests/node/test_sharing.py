"""Who has a device: one pod, or as many as there are shares."""

from tests.node.node import entry


def test_two_pods_never_share_an_exclusive_device_and_a_third_is_refused(node):
    for n in range(2):
        node.plug(f"lab/one{n}", "c", 240, 50 + n)
    node.serve(entry("alone", "/dev/lab/one*", to="/dev/one{n}"))
    node.start_agent()
    node.offers("alone", "lab_one0", "lab_one1")
    node.apply("first", alone=1)
    node.apply("second", alone=1)
    node.running("first", "second")

    assert {node.inside(pod, "echo $IDS") for pod in ("first", "second")} == {"lab_one0", "lab_one1"}
    assert node.nodes("first").keys() == node.nodes("second").keys() == {"/dev/one0"}
    assert node.nodes("first") != node.nodes("second")

    # The kubelet counts by itself and does not ask us: the text is its own.
    node.apply("third", alone=1)
    reason, message = node.refused("third")
    assert reason == "UnexpectedAdmissionError"
    assert "requested number of devices unavailable for node.test/alone. Requested: 1, Available: 0" in message

    node.remove("first")
    node.apply("fourth", alone=1)
    node.running("fourth")
    assert node.inside("fourth", "echo $IDS") != node.inside("second", "echo $IDS")


def test_shares_put_two_pods_on_one_device(node):
    node.plug("lab/both", "c", 240, 60)
    node.serve(
        entry("shared", "/dev/lab/both", more="replicas = 2", env='SHARE = { value = "{id}/{share}", join = "," }')
    )
    node.start_agent()
    node.offers("shared", "lab_both::0", "lab_both::1")
    node.apply("left", shared=1)
    node.apply("right", shared=1)
    node.running("left", "right")
    assert node.nodes("left") == node.nodes("right") == {"/dev/lab/both": "c 240:60"}
    assert {node.inside(pod, "echo $SHARE") for pod in ("left", "right")} == {"lab_both/0", "lab_both/1"}
    node.apply("one-more", shared=1)
    assert node.refused("one-more")[0] == "UnexpectedAdmissionError"


def test_pod_resources_agrees_with_the_agent(node):
    for n in range(4):
        node.plug(f"lab/held{n}", "c", 240, 70 + n)
    node.serve(
        entry("held", "/dev/lab/held[012]"),
        entry(
            "held-shares", "/dev/lab/held3", more="replicas = 3", env='SHARE = { value = "{id}::{share}", join = "," }'
        ),
    )
    node.start_agent()
    node.offers("held", "lab_held0", "lab_held1", "lab_held2")
    node.offers("held-shares", "lab_held3::0", "lab_held3::1", "lab_held3::2")
    node.apply("holds-two", held=2)
    node.apply("holds-mix", held=1, **{"held-shares": 1})
    node.running("holds-two", "holds-mix")

    def told(pod):
        """What the agent gave it."""
        devices = node.inside(pod, "echo $IDS").split(",")
        share = node.inside(pod, "echo $SHARE")
        return {("node.test/held", device) for device in devices} | (
            {("node.test/held-shares", share)} if share else set()
        )

    holders = node.holders()
    by_pod = {
        pod: {device for device, by in holders.items() if [h.pod for h in by] == [f"{pod}-node"]}
        for pod in ("holds-two", "holds-mix")
    }
    assert by_pod == {pod: told(pod) for pod in by_pod}
    assert node.held() == {device for _, device in holders}
