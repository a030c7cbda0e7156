package driver

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Setup is what one life of a kubelet is made with.
type Setup struct {
	Socket       string // kubelet.sock
	Plugins      string // directory of the plugin watcher; empty for none
	PodResources string // socket of the PodResources API; empty for none
	NUMANodes    int
	Policy       string // of the topology manager
	Scope        string
	Options      map[string]string
	Logger       klog.Logger
	ActivePods   func() []*v1.Pod
	AllPods      func() []*v1.Pod
	SourcesReady func() bool
	Running      []Running // what the container runtime ran before
}

// Running is a container that the runtime knows from the kubelet's life before.
type Running struct {
	PodUID, Container, ID string
	Now                   bool // and it still runs
}

// Hint is what the topology manager is told of one way to place a request.
type Hint struct {
	Nodes     []int `json:"nodes"`
	Preferred bool  `json:"preferred"`
}

// Kubelet is one life of the device manager and its neighbours, in the words
// that all minors have in common.
type Kubelet interface {
	Start() error
	Stop() error
	Manager() any // the kubelet's *ManagerImpl
	Admit(pod *v1.Pod) (admitted bool, reason, message string)
	Allocate(pod *v1.Pod, container *v1.Container) error
	RunOptions(pod *v1.Pod, container *v1.Container) (any, error)
	Capacity() (capacity, allocatable v1.ResourceList, deleted []string)
	Hints(pod *v1.Pod, container *v1.Container) map[string][]Hint
	Devices(podUID, container string) map[string][]string
	Status(pod *v1.Pod, status *v1.PodStatus)
	Reclaim() // frees what pods that are no longer active held
	Healthy() error
	Changed() <-chan []string // UIDs of pods whose devices changed
	ContainerStarted(pod *v1.Pod, container *v1.Container, id string)
	ContainerGone(id string)
}

// runOptions has the shape of the kubelet's DeviceRunContainerOptions.
type runOptions struct {
	Envs        []struct{ Name, Value string }
	Annotations []struct{ Name, Value string }
	CDIDevices  []struct{ Name string }
	Devices     []struct{ PathOnHost, PathInContainer, Permissions string }
	Mounts      []struct {
		Name, HostPath, ContainerPath string
		ReadOnly                      bool
	}
}

func spelled(options any) (Fields, error) {
	var given runOptions
	text, err := json.Marshal(options)
	if err == nil {
		err = json.Unmarshal(text, &given)
	}
	if err != nil {
		return nil, err
	}
	envs, annotations := map[string]string{}, map[string]string{}
	devices, mounts, names := []Fields{}, []Fields{}, []string{}
	for _, env := range given.Envs {
		envs[env.Name] = env.Value
	}
	for _, annotation := range given.Annotations {
		annotations[annotation.Name] = annotation.Value
	}
	for _, device := range given.Devices {
		devices = append(devices, Fields{
			"host_path": device.PathOnHost, "container_path": device.PathInContainer, "permissions": device.Permissions,
		})
	}
	for _, mount := range given.Mounts {
		mounts = append(mounts, Fields{
			"host_path": mount.HostPath, "container_path": mount.ContainerPath, "read_only": mount.ReadOnly,
		})
	}
	for _, device := range given.CDIDevices {
		names = append(names, device.Name)
	}
	return Fields{
		"envs": envs, "devices": devices, "mounts": mounts, "cdi_devices": names, "annotations": annotations,
	}, nil
}
