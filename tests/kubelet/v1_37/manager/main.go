// Command manager is the device manager of Kubernetes 1.37, driven by JSON
// lines; see tests/kubelet/README.md.
package main

import (
	"context"
	_ "unsafe"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"kubelet.test/driver"
)

func main() { driver.Main(version.Get().GitVersion, create, utilfeature.DefaultMutableFeatureGate.Set) }

// The exported constructor knows no other directory than /var/lib/kubelet.
//
//go:linkname newManagerImpl k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManagerImpl(klog.Logger, string, []cadvisorapi.Node, topologymanager.Store) (*devicemanager.ManagerImpl, error)

type kubelet struct {
	driver.Setup
	context  context.Context
	cancel   context.CancelFunc
	devices  *devicemanager.ManagerImpl
	topology topologymanager.Manager
	changed  chan []string
}

func create(setup driver.Setup) (driver.Kubelet, error) {
	k := &kubelet{Setup: setup, changed: make(chan []string)}
	k.context, k.cancel = context.WithCancel(klog.NewContext(context.Background(), setup.Logger))
	machine := make([]cadvisorapi.Node, setup.NUMANodes)
	for i := range machine {
		machine[i].Id = i
		for j := range machine {
			machine[i].Distances = append(machine[i].Distances, map[bool]uint64{true: 10, false: 20}[i == j])
		}
	}
	var err error
	k.topology, err = topologymanager.NewManager(k.Logger, machine, setup.Policy, setup.Scope, setup.Options)
	if err != nil {
		return nil, err
	}
	if k.devices, err = newManagerImpl(k.Logger, setup.Socket, machine, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(k.Logger, k.devices)
	return k, nil
}

func (k *kubelet) Start() error {
	known, running := containermap.NewContainerMap(), sets.New[string]()
	for _, container := range k.Running {
		known.Add(container.PodUID, container.Container, container.ID)
		if container.Now {
			running.Insert(container.ID)
		}
	}
	if err := k.devices.Start(k.Logger, k.ActivePods, k, known, running); err != nil {
		return err
	}
	go k.forward()
	if k.Plugins != "" {
		plugins := pluginmanager.NewPluginManager(k.Plugins, nil)
		plugins.AddHandler("DevicePlugin", k.devices.GetWatcherHandler())
		go plugins.Run(k.context, k, k.context.Done())
	}
	if k.PodResources != "" {
		return k.servePodResources()
	}
	return nil
}

func (k *kubelet) forward() {
	for {
		select {
		case <-k.context.Done():
			return
		case update := <-k.devices.Updates():
			select {
			case k.changed <- update.PodUIDs:
			case <-k.context.Done():
			}
		}
	}
}

func (k *kubelet) Stop() error {
	k.cancel()
	return k.devices.Stop(k.Logger)
}

// AddSource and AllReady make the kubelet's SourcesReady.
func (k *kubelet) AddSource(string) {}
func (k *kubelet) AllReady() bool   { return k.SourcesReady() }

func (k *kubelet) Manager() any             { return k.devices }
func (k *kubelet) Changed() <-chan []string { return k.changed }
func (k *kubelet) Reclaim()                 { k.devices.UpdateAllocatedDevices(k.Logger) }
func (k *kubelet) Healthy() error           { return k.devices.GetHealthChecker().Check(nil) }

func (k *kubelet) Admit(pod *v1.Pod) (bool, string, string) {
	result := k.topology.Admit(k.context, &lifecycle.PodAdmitAttributes{
		Pod: pod, OtherPods: k.ActivePods(), Operation: lifecycle.AddOperation,
	})
	return result.Admit, result.Reason, result.Message
}

func (k *kubelet) Allocate(pod *v1.Pod, container *v1.Container) error {
	return k.devices.Allocate(k.context, pod, container, lifecycle.AddOperation)
}

func (k *kubelet) RunOptions(pod *v1.Pod, container *v1.Container) (any, error) {
	return k.devices.GetDeviceRunContainerOptions(k.context, pod, container)
}

func (k *kubelet) Capacity() (v1.ResourceList, v1.ResourceList, []string) {
	return k.devices.GetCapacity(k.Logger)
}

func (k *kubelet) Hints(pod *v1.Pod, container *v1.Container) map[string][]driver.Hint {
	hints := map[string][]driver.Hint{}
	for resource, list := range k.devices.GetTopologyHints(k.Logger, pod, container, lifecycle.AddOperation) {
		hints[resource] = nil // any place will do
		if list != nil {
			hints[resource] = []driver.Hint{}
		}
		for _, hint := range list {
			hints[resource] = append(hints[resource], driver.Hint{
				Nodes: hint.NUMANodeAffinity.GetBits(), Preferred: hint.Preferred,
			})
		}
	}
	return hints
}

func (k *kubelet) Devices(podUID, container string) map[string][]string {
	devices := map[string][]string{}
	for resource, instances := range k.devices.GetDevices(podUID, container) {
		devices[resource] = sets.List(sets.KeySet(instances))
	}
	return devices
}

func (k *kubelet) Status(pod *v1.Pod, status *v1.PodStatus) {
	k.devices.UpdateAllocatedResourcesStatus(k.Logger, pod, status)
}

func (k *kubelet) ContainerStarted(pod *v1.Pod, container *v1.Container, id string) {
	k.topology.AddContainer(k.Logger, pod, container, id)
}

func (k *kubelet) ContainerGone(id string) {
	_ = k.topology.RemoveContainer(k.Logger, id)
}
