package main

import (
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/cri-client/pkg/util"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// servePodResources does what the kubelet's ListenAndServePodResources does.
func (k *kubelet) servePodResources() error {
	server := grpc.NewServer(apisgrpc.WithRateLimiter(
		k.context, "podresources", podresources.DefaultQPS, podresources.DefaultBurstTokens))
	podresourcesapi.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(
		k.context, podresources.PodResourcesProviders{
			Pods: provider{kubelet: k}, Devices: provider{kubelet: k}, Cpus: provider{kubelet: k},
			Memory: provider{kubelet: k}, DynamicResources: provider{kubelet: k},
		}))
	listener, err := util.CreateListener(k.PodResources)
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(listener) }()
	go func() {
		<-k.context.Done()
		server.Stop()
	}()
	return nil
}

// provider is what the kubelet's container manager and pod manager say to the
// PodResources server, on a node whose CPUs and memory belong to nobody.
type provider struct{ *kubelet }

func (p provider) GetActivePods() []*v1.Pod { return p.ActivePods() }
func (p provider) GetPods() []*v1.Pod       { return p.AllPods() }
func (p provider) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range p.AllPods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

func (p provider) UpdateAllocatedDevices() {
	p.devices.UpdateAllocatedDevices()
}
func (p provider) GetDevices(podUID, container string) []*podresourcesapi.ContainerDevices {
	return entries(p.devices.GetDevices(podUID, container))
}
func (p provider) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	return entries(p.devices.GetAllocatableDevices())
}

func (p provider) GetCPUs(string, string) []int64 { return nil }
func (p provider) GetAllocatableCPUs() []int64    { return nil }
func (p provider) GetMemory(string, string) []*podresourcesapi.ContainerMemory {
	return nil
}
func (p provider) GetAllocatableMemory() []*podresourcesapi.ContainerMemory { return nil }
func (p provider) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}

// entries is the kubelet's containerDevicesFromResourceDeviceInstances: one
// entry for each device and NUMA node.
func entries(devices devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var list []*podresourcesapi.ContainerDevices
	for resource, instances := range devices {
		for id, device := range instances {
			if device.GetTopology() == nil {
				list = append(list, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
				continue
			}
			for _, node := range device.GetTopology().GetNodes() {
				list = append(list, &podresourcesapi.ContainerDevices{
					ResourceName: resource, DeviceIds: []string{id},
					Topology: &podresourcesapi.TopologyInfo{
						Nodes: []*podresourcesapi.NUMANode{{ID: node.GetID()}},
					},
				})
			}
		}
	}
	return list
}
