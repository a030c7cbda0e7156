package driver

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type knownPod struct {
	*v1.Pod
	active  bool
	started map[string]string // container: its ID at the runtime
}

func (d *driver) list(onlyActive bool) []*v1.Pod {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var pods []*v1.Pod
	for _, pod := range d.pods {
		if pod.active || !onlyActive {
			pods = append(pods, pod.Pod)
		}
	}
	return pods
}

// running is what the runtime knows when a new life asks it.
func (d *driver) running(still bool) []Running {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var all []Running
	for _, pod := range d.pods {
		for name, id := range pod.started {
			all = append(all, Running{PodUID: string(pod.UID), Container: name, ID: id, Now: still && pod.active})
		}
	}
	return all
}

func (d *driver) names(uids []string) []string {
	names := []string{}
	for _, pod := range d.list(false) {
		for _, uid := range uids {
			if string(pod.UID) == uid {
				names = append(names, pod.Name)
			}
		}
	}
	return names
}

func (d *driver) pod(name string) (*knownPod, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, pod := range d.pods {
		if pod.Name == name {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("no pod %q", name)
}

func (p *knownPod) container(name string) (*v1.Container, error) {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no container %q in pod %q", name, p.Name)
}

func specified(request Request) *v1.Pod {
	uid := request.UID
	if uid == "" {
		uid = "uid-of-" + request.Pod
	}
	always := v1.ContainerRestartPolicyAlways
	build := func(list []Container, fallback string) []v1.Container {
		var containers []v1.Container
		for i, asked := range list {
			container := v1.Container{Name: asked.Name}
			if container.Name == "" {
				container.Name = fmt.Sprintf("%s-%d", fallback, i)
			}
			if asked.Restartable {
				container.RestartPolicy = &always
			}
			amounts := v1.ResourceList{}
			for name, amount := range asked.Resources {
				amounts[v1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
			}
			container.Resources = v1.ResourceRequirements{Limits: amounts, Requests: amounts}
			containers = append(containers, container)
		}
		return containers
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: request.Pod, Namespace: "default", UID: types.UID(uid)},
		Spec: v1.PodSpec{
			InitContainers: build(request.Init, "init"),
			Containers:     build(request.Containers, "container"),
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}
