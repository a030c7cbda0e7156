"""The messages, compared with bytes from the tables of the interface."""

import pytest

from agent.kubelet.messages import pluginregistration, v1, v1beta1


def number(value: int) -> bytes:
    """A varint; negative numbers as 64 bits, two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_number(field: int, value: int) -> bytes:
    return number(field << 3) + number(value)


def encode_bytes(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return number(field << 3 | 2) + number(len(raw)) + raw


CASES = {
    "device": (
        v1beta1.Device(
            id="gpu-0",
            health="Healthy",
            topology=v1beta1.TopologyInfo(nodes=[v1beta1.NumaNode(id=1), v1beta1.NumaNode(id=300)]),
        ),
        b"\x0a\x05gpu-0\x12\x07Healthy\x1a\x09\x0a\x02\x08\x01\x0a\x03\x08\xac\x02",
    ),
    "device on NUMA node 0": (
        v1beta1.Device(id="a", topology=v1beta1.TopologyInfo(nodes=[v1beta1.NumaNode(id=0)])),
        b"\x0a\x01a\x1a\x02\x0a\x00",
    ),
    "device without topology": (
        v1beta1.Device(id="ü", health="Unhealthy"),
        b"\x0a\x02\xc3\xbc\x12\x09Unhealthy",
    ),
    "list": (
        v1beta1.ListAndWatchResponse(devices=[v1beta1.Device(id="a"), v1beta1.Device(id="b")]),
        b"\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b",
    ),
    "empty list": (v1beta1.ListAndWatchResponse(), b""),
    "register": (
        v1beta1.RegisterRequest(
            version="v1beta1",
            endpoint="x.sock",
            resource_name="example.com/foo",
            options=v1beta1.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True),
        ),
        b"\x0a\x07v1beta1\x12\x06x.sock\x1a\x0fexample.com/foo\x22\x04\x08\x01\x10\x01",
    ),
    "preferred request": (
        v1beta1.PreferredAllocationRequest(
            container_requests=[
                v1beta1.ContainerPreferredAllocationRequest(
                    available_deviceIDs=["a", "b"], must_include_deviceIDs=["a"], allocation_size=2
                )
            ]
        ),
        b"\x0a\x0b\x0a\x01a\x0a\x01b\x12\x01a\x18\x02",
    ),
    "preferred answer": (
        v1beta1.PreferredAllocationResponse(
            container_responses=[v1beta1.ContainerPreferredAllocationResponse(device_i_ds=["a", "b"])]
        ),
        b"\x0a\x06\x0a\x01a\x0a\x01b",
    ),
    "allocate request": (
        v1beta1.AllocateRequest(
            container_requests=[
                v1beta1.ContainerAllocateRequest(devices_ids=["a", "b"]),
                v1beta1.ContainerAllocateRequest(),
            ]
        ),
        b"\x0a\x06\x0a\x01a\x0a\x01b\x0a\x00",
    ),
    "container answer": (
        v1beta1.ContainerAllocateResponse(
            envs={"K": "v"},
            mounts=[v1beta1.Mount(container_path="/c", host_path="/h", read_only=True)],
            devices=[v1beta1.DeviceSpec(container_path="/dev/c", host_path="/dev/h", permissions="rw")],
            annotations={"a": ""},
            cdi_devices=[v1beta1.CdiDevice(name="example.com/gpu=0")],
        ),
        encode_bytes(1, encode_bytes(1, "K") + encode_bytes(2, "v"))
        + encode_bytes(2, encode_bytes(1, "/c") + encode_bytes(2, "/h") + encode_number(3, 1))
        + encode_bytes(3, encode_bytes(1, "/dev/c") + encode_bytes(2, "/dev/h") + encode_bytes(3, "rw"))
        + encode_bytes(4, encode_bytes(1, "a") + encode_bytes(2, ""))
        + encode_bytes(5, encode_bytes(1, "example.com/gpu=0")),
    ),
    "pre-start request": (v1beta1.PreStartContainerRequest(devices_ids=["a"]), b"\x0a\x01a"),
    "plugin": (
        pluginregistration.PluginInfo(
            type="DevicePlugin",
            name="example.com/foo",
            endpoint="/run/x.sock",
            supported_versions=["v1beta1", "v1"],
        ),
        b"\x0a\x0cDevicePlugin\x12\x0fexample.com/foo\x1a\x0b/run/x.sock\x22\x07v1beta1\x22\x02v1",
    ),
    "registration status": (
        pluginregistration.RegistrationStatus(plugin_registered=True, error="no"),
        b"\x08\x01\x12\x02no",
    ),
    "pods": (
        v1.ListPodResourcesResponse(
            pod_resources=[
                v1.PodResources(
                    name="p",
                    namespace="ns",
                    containers=[
                        v1.ContainerResources(
                            name="c",
                            devices=[
                                v1.ContainerDevices(
                                    resource_name="example.com/foo",
                                    device_ids=["a", "b"],
                                    topology=v1.TopologyInfo(nodes=[v1.NumaNode(id=-1)]),
                                )
                            ],
                        )
                    ],
                )
            ]
        ),
        encode_bytes(
            1,
            encode_bytes(1, "p")
            + encode_bytes(2, "ns")
            + encode_bytes(
                3,
                encode_bytes(1, "c")
                + encode_bytes(
                    2,
                    encode_bytes(1, "example.com/foo")
                    + encode_bytes(2, "a")
                    + encode_bytes(2, "b")
                    + encode_bytes(3, encode_bytes(1, encode_number(1, -1))),
                ),
            ),
        ),
    ),
    "allocatable": (
        v1.AllocatableResourcesResponse(
            devices=[v1.ContainerDevices(resource_name="r", device_ids=["a"])],
        ),
        b"\x0a\x06\x0a\x01r\x12\x01a",
    ),
    "get request": (
        v1.GetPodResourcesRequest(pod_name="p", pod_namespace="ns"),
        b"\x0a\x01p\x12\x02ns",
    ),
    "get answer": (
        v1.GetPodResourcesResponse(pod_resources=v1.PodResources(name="p")),
        b"\x0a\x03\x0a\x01p",
    ),
}


@pytest.mark.parametrize(("message", "raw"), CASES.values(), ids=CASES.keys())
def test_bytes(message, raw):
    assert bytes(message) == raw
    assert type(message).parse(raw) == message


def test_fields_of_a_later_kubelet_are_passed_over():
    raw = encode_bytes(1, "p") + encode_bytes(99, "new") + encode_bytes(2, "ns")
    pod = v1.PodResources.parse(raw)
    assert (pod.name, pod.namespace) == ("p", "ns")


def test_cpus_memory_and_dynamic_resources_are_passed_over():
    memory = encode_bytes(1, "memory") + encode_number(2, 1 << 33)
    raw = (
        encode_bytes(1, "c")
        + encode_bytes(3, number(1) + number(300))
        + encode_number(3, 2)
        + encode_bytes(4, memory)
        + encode_bytes(5, encode_bytes(2, "claim"))
    )
    container = v1.ContainerResources.parse(raw + encode_bytes(2, encode_bytes(1, "r") + encode_bytes(2, "a")))
    assert (container.name, container.devices) == ("c", [v1.ContainerDevices(resource_name="r", device_ids=["a"])])


def test_methods():
    served = {
        v1beta1.DevicePluginBase: {
            "/v1beta1.DevicePlugin/GetDevicePluginOptions",
            "/v1beta1.DevicePlugin/ListAndWatch",
            "/v1beta1.DevicePlugin/GetPreferredAllocation",
            "/v1beta1.DevicePlugin/Allocate",
            "/v1beta1.DevicePlugin/PreStartContainer",
        },
        v1beta1.RegistrationBase: {"/v1beta1.Registration/Register"},
        pluginregistration.RegistrationBase: {
            "/pluginregistration.Registration/GetInfo",
            "/pluginregistration.Registration/NotifyRegistrationStatus",
        },
        v1.PodResourcesListerBase: {
            "/v1.PodResourcesLister/List",
            "/v1.PodResourcesLister/GetAllocatableResources",
            "/v1.PodResourcesLister/Get",
        },
    }
    for base, methods in served.items():
        assert set(base().__mapping__()) == methods
