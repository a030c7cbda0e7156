package driver

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

func (d *driver) do(request Request) (Fields, error) {
	switch request.Do {
	case "begin":
		return d.resume(request)
	case "restart":
		if err := d.end(); err != nil {
			return nil, err
		}
		return d.resume(request)
	case "stop":
		return nil, d.end()
	}
	l := d.current()
	if l == nil {
		return nil, errors.New("the kubelet is stopped")
	}
	switch request.Do {
	case "admit":
		return d.admit(l, request)
	case "allocate":
		return d.allocate(l, request)
	case "start":
		return d.start(l, request)
	case "remove":
		return nil, d.remove(l, request)
	case "reclaim":
		l.Reclaim()
		return nil, nil
	case "hints":
		return d.hints(l, request)
	case "status":
		return d.status(l, request)
	case "age":
		if !age(l.Manager(), request.Resource, request.Seconds) {
			return nil, fmt.Errorf("%q is not a stopped resource", request.Resource)
		}
		return nil, nil
	case "sources":
		l.ready.Store(request.Ready)
		return nil, nil
	case "capacity":
		resources, deleted := capacity(l)
		return Fields{"resources": resources, "deleted": deleted}, nil
	case "view":
		return d.view(l), nil
	case "health":
		return nil, l.Healthy()
	}
	return nil, fmt.Errorf("cannot do %q", request.Do)
}

// resume begins a new life and hands it the pods that are left, before all
// sources are ready: that is when a kubelet admits the pods it finds.
func (d *driver) resume(request Request) (Fields, error) {
	if err := d.begin(d.running(request.Running == nil || *request.Running)); err != nil {
		return nil, err
	}
	l := d.current()
	time.Sleep(time.Duration(request.Seconds * float64(time.Second)))
	pods := Fields{}
	if request.Readmit == nil || *request.Readmit {
		for _, pod := range d.list(true) {
			known, err := d.pod(pod.Name)
			if err != nil {
				continue
			}
			fields, err := d.enter(l, known, false)
			if err != nil {
				fields["error"] = err.Error()
			}
			fields["ok"] = err == nil
			pods[pod.Name] = fields
		}
	}
	l.ready.Store(true)
	return Fields{"life": l.number, "pods": pods}, nil
}

func (d *driver) admit(l *life, request Request) (Fields, error) {
	if request.Pod == "" {
		return nil, errors.New("a pod needs a name")
	}
	if known, err := d.pod(request.Pod); err == nil {
		if !known.active {
			return nil, fmt.Errorf("pod %q has failed or is being removed; a new one needs another name", request.Pod)
		}
		return d.enter(l, known, request.Concurrent)
	}
	pod := &knownPod{Pod: specified(request), active: true, started: map[string]string{}}
	d.mutex.Lock()
	d.pods = append(d.pods, pod)
	d.mutex.Unlock()
	return d.enter(l, pod, request.Concurrent)
}

// enter is the kubelet's admission of one pod: the topology manager asks for
// hints, decides, and allocates for each container in turn.
func (d *driver) enter(l *life, pod *knownPod, concurrent bool) (Fields, error) {
	if !concurrent {
		l.admission.Lock()
		defer l.admission.Unlock()
	}
	admitted, reason, message := l.Admit(pod.Pod)
	if !admitted {
		d.mutex.Lock()
		pod.active = false // phase Failed, which is final
		d.mutex.Unlock()
		return Fields{"reason": reason}, errors.New(message)
	}
	return Fields{"uid": string(pod.UID), "devices": devices(l, pod)}, nil
}

func devices(l *life, pod *knownPod) Fields {
	held := Fields{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range list {
			held[container.Name] = l.Devices(string(pod.UID), container.Name)
		}
	}
	return held
}

// allocate goes to the device manager without admission before it.
func (d *driver) allocate(l *life, request Request) (Fields, error) {
	pod, err := d.pod(request.Pod)
	if err != nil {
		pod = &knownPod{Pod: specified(request), active: true, started: map[string]string{}}
		d.mutex.Lock()
		d.pods = append(d.pods, pod)
		d.mutex.Unlock()
	}
	container, err := pod.container(request.Container)
	if err != nil {
		return nil, err
	}
	if err := l.Allocate(pod.Pod, container); err != nil {
		return nil, err
	}
	return Fields{"uid": string(pod.UID), "devices": devices(l, pod)}, nil
}

// start is what the kubelet does with devices when it starts a container.
func (d *driver) start(l *life, request Request) (Fields, error) {
	pod, err := d.pod(request.Pod)
	if err != nil {
		return nil, err
	}
	container, err := pod.container(request.Container)
	if err != nil {
		return nil, err
	}
	given, err := l.RunOptions(pod.Pod, container)
	if err != nil {
		return nil, err
	}
	options, err := spelled(given)
	if err != nil {
		return nil, err
	}
	d.mutex.Lock()
	d.made++
	old, id := pod.started[container.Name], fmt.Sprintf("container-%d", d.made)
	pod.started[container.Name] = id
	d.mutex.Unlock()
	l.ContainerStarted(pod.Pod, container, id)
	if old != "" {
		l.ContainerGone(old)
	}
	return Fields{"options": options}, nil
}

// remove ends a pod. As in the kubelet, its devices stay booked until the next
// allocation, PodResources call or "reclaim".
func (d *driver) remove(l *life, request Request) error {
	pod, err := d.pod(request.Pod)
	if err != nil {
		return err
	}
	d.mutex.Lock()
	for i := range d.pods {
		if d.pods[i] == pod {
			d.pods = append(d.pods[:i:i], d.pods[i+1:]...)
			break
		}
	}
	d.mutex.Unlock()
	for _, id := range pod.started {
		l.ContainerGone(id)
	}
	return nil
}

func (d *driver) hints(l *life, request Request) (Fields, error) {
	pod, err := d.pod(request.Pod)
	if err != nil {
		if request.Pod == "" {
			request.Pod = "hypothetical"
		}
		pod = &knownPod{Pod: specified(request)}
	}
	hints := Fields{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			hints[list[i].Name] = l.Hints(pod.Pod, &list[i])
		}
	}
	return Fields{"hints": hints}, nil
}

// status is what the kubelet writes into status.containerStatuses.
func (d *driver) status(l *life, request Request) (Fields, error) {
	pod, err := d.pod(request.Pod)
	if err != nil {
		return nil, err
	}
	status := v1.PodStatus{}
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: container.Name})
	}
	l.Status(pod.Pod, &status)
	containers := map[string]map[string]map[string]string{}
	for _, container := range status.ContainerStatuses {
		containers[container.Name] = map[string]map[string]string{}
		for _, of := range container.AllocatedResourcesStatus {
			health := map[string]string{}
			for _, device := range of.Resources {
				health[string(device.ResourceID)] = string(device.Health)
			}
			containers[container.Name][string(of.Name)] = health
		}
	}
	return Fields{"health": containers}, nil
}

func (d *driver) view(l *life) Fields {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	pods := Fields{}
	for _, pod := range d.pods {
		pods[pod.Name] = Fields{"active": pod.active, "uid": string(pod.UID), "devices": devices(l, pod)}
	}
	return Fields{"life": l.number, "resources": view(l.Manager()), "clients": clients(l.Manager()), "pods": pods}
}
