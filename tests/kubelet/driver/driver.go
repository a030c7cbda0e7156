package driver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
)

// life is one kubelet from its start to its stop.
type life struct {
	Kubelet
	number    int
	ready     atomic.Bool
	stopped   chan struct{}
	admission sync.Mutex // the kubelet admits one pod at a time
}

type driver struct {
	setup  Setup
	create func(Setup) (Kubelet, error)
	lives  sync.Mutex // starting and stopping
	now    atomic.Pointer[life]
	kick   chan struct{}
	poll   time.Duration

	mutex sync.Mutex
	pods  []*knownPod // in the order of arrival
	begun int         // lives
	made  int         // containers
}

// Main runs a program around one kubelet minor.
func Main(version string, create func(Setup) (Kubelet, error), setGates func(string) error) {
	d := &driver{create: create, kick: make(chan struct{}, 1)}
	directory := flag.String("directory", "", "where kubelet.sock and the checkpoint are")
	options, gates := "", ""
	verbosity, all, ready := 0, false, true
	flag.StringVar(&d.setup.Plugins, "plugins", "", "directory of the plugin watcher (default: none)")
	flag.StringVar(&d.setup.PodResources, "pod-resources", "", "socket to serve the PodResources API on (default: none)")
	flag.IntVar(&d.setup.NUMANodes, "numa-nodes", 2, "how many NUMA nodes the machine pretends to have")
	flag.StringVar(&d.setup.Policy, "policy", "none", "of the topology manager: none, best-effort, restricted, single-numa-node")
	flag.StringVar(&d.setup.Scope, "scope", "container", "of the topology manager: container, pod")
	flag.StringVar(&options, "policy-options", "", "of the topology manager: name=value,...")
	flag.StringVar(&gates, "feature-gates", "", "of the kubelet: Name=true,...")
	flag.DurationVar(&d.poll, "poll", 10*time.Millisecond, "how often to look at the capacity")
	flag.IntVar(&verbosity, "v", 4, "how much the kubelet logs")
	flag.BoolVar(&all, "log", false, "report the kubelet's whole log")
	flag.BoolVar(&ready, "sources-ready", true, "begin as a kubelet that has heard of all its pods")
	flag.Parse()
	if *directory == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	absolute, err := filepath.Abs(*directory)
	if err == nil && gates != "" {
		err = setGates(gates)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	d.setup.Socket = filepath.Join(absolute, "kubelet.sock")
	d.setup.Options = map[string]string{}
	for _, option := range strings.FieldsFunc(options, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(option, "=")
		d.setup.Options[name] = value
	}
	d.setup.Logger = takeLog(verbosity, all, d.look)
	d.setup.ActivePods = func() []*v1.Pod { return d.list(true) }
	d.setup.AllPods = func() []*v1.Pod { return d.list(false) }
	event("program", Fields{"version": version, "pid": os.Getpid(), "directory": absolute})
	if err := d.begin(nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d.current().ready.Store(ready)
	d.serve()
}

func (d *driver) serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var request Request
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&request); err != nil {
			say(Fields{"id": request.ID, "ok": false, "error": "not a request: " + err.Error()})
			continue
		}
		if request.Do == "quit" {
			say(Fields{"id": request.ID, "ok": true})
			break
		}
		go d.answer(request)
	}
}

func (d *driver) answer(request Request) {
	begun := time.Now()
	fields, err := d.do(request)
	if fields == nil {
		fields = Fields{}
	}
	fields["id"], fields["ok"], fields["seconds"] = request.ID, err == nil, time.Since(begun).Seconds()
	if err != nil {
		fields["error"] = err.Error()
	}
	say(fields)
	d.look()
}

func (d *driver) current() *life { return d.now.Load() }

func (d *driver) begin(running []Running) error {
	d.lives.Lock()
	defer d.lives.Unlock()
	if d.current() != nil {
		return errors.New("it runs already")
	}
	d.begun++
	l := &life{number: d.begun, stopped: make(chan struct{})}
	setup := d.setup
	setup.Running, setup.SourcesReady = running, l.ready.Load
	var err error
	if l.Kubelet, err = d.create(setup); err != nil {
		return err
	}
	if err = l.Start(); err != nil {
		return err
	}
	d.now.Store(l)
	event("started", Fields{"socket": setup.Socket, "life": l.number})
	go d.watch(l)
	return nil
}

func (d *driver) end() error {
	d.lives.Lock()
	defer d.lives.Unlock()
	l := d.current()
	if l == nil {
		return errors.New("it does not run")
	}
	d.now.Store(nil)
	close(l.stopped)
	keepSocket(l.Manager())
	err := l.Stop()
	event("ended-life", Fields{"life": l.number})
	return err
}

// look asks the watcher to look at once.
func (d *driver) look() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// watch reports what the node status would say, whenever it changes.
func (d *driver) watch(l *life) {
	said := map[string]Fields{}
	ticks := time.NewTicker(d.poll)
	defer ticks.Stop()
	for {
		select {
		case <-l.stopped:
			return
		case uids := <-l.Changed():
			event("pods", Fields{"pods": d.names(uids)})
			continue
		case <-ticks.C:
		case <-d.kick:
		}
		now, deleted := capacity(l)
		changed, gone := Fields{}, []string{}
		for name, counts := range now {
			if !reflect.DeepEqual(counts, said[name]) {
				changed[name] = counts
			}
		}
		for name := range said {
			if now[name] == nil {
				gone = append(gone, name)
			}
		}
		if said = now; len(changed)+len(gone)+len(deleted) > 0 {
			event("resources", Fields{"life": l.number, "changed": changed, "gone": gone, "deleted": deleted})
		}
	}
}

func capacity(l *life) (map[string]Fields, []string) {
	total, allocatable, deleted := l.Capacity()
	resources := map[string]Fields{}
	for name := range total {
		all, healthy := count(total, name), count(allocatable, name)
		resources[string(name)] = Fields{"capacity": all, "allocatable": healthy, "unhealthy": all - healthy}
	}
	return resources, deleted
}
