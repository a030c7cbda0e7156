// The reference in Go: a device plugin server without an agent, with the libraries of the kubelet itself.
//
// No configuration, no discovery, no state, nothing checked: each resource has a number of devices that stdin makes
// Unhealthy and Healthy ("RESOURCE DEVICE 0|1" a line).
//
//	bare DIRECTORY RESOURCES DEVICES
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	number  int
	mutex   sync.Mutex
	devices []*api.Device
	changed chan struct{} // closed, and replaced by another, at each change
}

func newPlugin(number, devices int) *plugin {
	p := &plugin{number: number, changed: make(chan struct{})}
	for device := range devices {
		id := fmt.Sprintf("r%03d-%05d", number, device)
		p.devices = append(p.devices, &api.Device{ID: id, Health: api.Healthy})
	}
	return p
}

func (p *plugin) set(device int, health string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.devices[device] = &api.Device{ID: p.devices[device].ID, Health: health}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plugin) list() (*api.ListAndWatchResponse, chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return &api.ListAndWatchResponse{Devices: append([]*api.Device(nil), p.devices...)}, p.changed
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		list, changed := p.list()
		if err := stream.Send(list); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer := &api.ContainerAllocateResponse{}
		for _, id := range container.DevicesIds {
			path := "/dev/" + id
			answer.Devices = append(answer.Devices, &api.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"})
		}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}

// register serves the plugin on a fresh socket and registers that.
func (p *plugin) register(directory string) {
	name := fmt.Sprintf("bare-%d.sock", p.number)
	listener, err := net.Listen("unix", filepath.Join(directory, name))
	if err != nil {
		panic(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	connection, err := grpc.NewClient("unix://"+filepath.Join(directory, "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	for {
		request := &api.RegisterRequest{
			Version: api.Version, Endpoint: name, ResourceName: fmt.Sprintf("bench.example/r%03d", p.number),
		}
		if _, err := api.NewRegistrationClient(connection).Register(context.Background(), request); err == nil {
			return
		}
		connection.ResetConnectBackoff()
		time.Sleep(10 * time.Millisecond)
	}
}

// watch calls created whenever kubelet.sock is made in the directory.
func watch(directory string, created func()) {
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		panic(err)
	}
	if _, err := syscall.InotifyAddWatch(watch, directory, syscall.IN_CREATE); err != nil {
		panic(err)
	}
	file := os.NewFile(uintptr(watch), "inotify")
	events := make([]byte, 65536)
	for {
		count, err := file.Read(events)
		if err != nil {
			panic(err)
		}
		if strings.Contains(string(events[:count]), "kubelet.sock\x00") {
			created()
		}
	}
}

func main() {
	directory := os.Args[1]
	resources, _ := strconv.Atoi(os.Args[2])
	devices, _ := strconv.Atoi(os.Args[3])
	var plugins []*plugin
	for number := range resources {
		plugins = append(plugins, newPlugin(number, devices))
	}
	registerAll := func() {
		for _, p := range plugins {
			go p.register(directory)
		}
	}
	go watch(directory, registerAll)
	registerAll()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		resource, _ := strconv.Atoi(words[0])
		device, _ := strconv.Atoi(words[1])
		plugins[resource].set(device, map[bool]string{true: api.Healthy, false: api.Unhealthy}[words[2] == "1"])
	}
}
