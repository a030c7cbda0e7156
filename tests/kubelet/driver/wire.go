// Package driver lets a test drive one kubelet's device manager by JSON lines:
// requests come on standard input, answers and events go to standard output.
// tests/kubelet/README.md describes the lines; each kubelet minor plugs in as
// a Kubelet.
package driver

import (
	"encoding/json"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Container asks for devices by count.
type Container struct {
	Name        string           `json:"name"`
	Resources   map[string]int64 `json:"resources"`
	Restartable bool             `json:"restartable"` // an init container that goes on running
}

// Request is one line from the test.
type Request struct {
	ID         any         `json:"id"` // comes back in the answer
	Do         string      `json:"do"`
	Pod        string      `json:"pod"`
	UID        string      `json:"uid"`
	Container  string      `json:"container"`
	Containers []Container `json:"containers"`
	Init       []Container `json:"init"`
	Concurrent bool        `json:"concurrent"` // do not wait for other admissions
	Resource   string      `json:"resource"`
	Seconds    float64     `json:"seconds"`
	Running    *bool       `json:"running"` // restart, begin: the runtime still runs the containers
	Ready      bool        `json:"ready"`   // sources: all have been heard of
	Readmit    *bool       `json:"readmit"` // restart, begin: admit the active pods again
}

// Fields is an answer or an event before it becomes a line.
type Fields map[string]any

var output struct {
	sync.Mutex
	*json.Encoder
}

// say writes one line, stamped with the machine's monotonic clock: the same
// that other processes read, so that a test can subtract.
func say(fields Fields) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	output.Lock()
	defer output.Unlock()
	if output.Encoder == nil {
		output.Encoder = json.NewEncoder(os.Stdout)
	}
	fields["t"] = float64(now.Nano()) / 1e9
	if err := output.Encode(fields); err != nil {
		os.Exit(3) // nobody reads any more
	}
}

func event(name string, fields Fields) {
	fields["event"] = name
	say(fields)
}
