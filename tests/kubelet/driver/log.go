package driver

import (
	"flag"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// The kubelet tells what happens to it in its log, and nowhere else; the lines
// that matter to a device plugin become events of these names, in every minor.
var events = map[string]string{
	"Got registration request from device plugin with resource":                                    "register",
	"Registering plugin at endpoint":                                                               "register",
	"Bad registration request from device plugin with resource":                                    "refused",
	"Bad registration request from device plugin":                                                  "refused",
	"Failed to connect to new client":                                                              "refused",
	"Device plugin connected":                                                                      "connected",
	"State pushed for device plugin":                                                               "pushed",
	"Processed device updates for resource":                                                        "devices",
	"ListAndWatch ended unexpectedly for device plugin":                                            "ended",
	"Endpoint became unhealthy":                                                                    "stopped", // up to 1.36
	"Last device plugin for this resource disconnected":                                            "stopped", // from 1.37
	"Device plugin disconnected":                                                                   "disconnected",
	"Deregistering plugin":                                                                         "deregister",
	"Issuing a GetPreferredAllocation call for container":                                          "preferred",
	"Issuing a PreStartContainer call for container":                                               "prestart",
	"Making allocation request for device plugin":                                                  "allocate",
	"Needs to re-allocate device plugin resources for pod":                                         "reallocate",
	"Unexpected: healthyDevices and endpoints are out of sync":                                     "out-of-sync",
	"Unexpected: unhealthyDevices and endpoints became out of sync":                                "out-of-sync",
	"Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date": "checkpoint-unread",
}

// logSink turns the kubelet's log into events.
type logSink struct {
	verbosity int
	all       bool // lines without a name of their own, too
	values    []any
	noticed   func() // something may have changed
}

func (s *logSink) Init(logr.RuntimeInfo)                  {}
func (s *logSink) Enabled(level int) bool                 { return level <= s.verbosity }
func (s *logSink) WithName(string) logr.LogSink           { return s }
func (s *logSink) Info(_ int, text string, values ...any) { s.write("info", text, nil, values) }
func (s *logSink) Error(err error, text string, values ...any) {
	s.write("error", text, err, values)
}

func (s *logSink) WithValues(values ...any) logr.LogSink {
	with := *s
	with.values = append(append([]any{}, s.values...), values...)
	return &with
}

func (s *logSink) write(level, text string, err error, values []any) {
	name, named := events[text]
	if !named && level == "info" && !s.all {
		return
	}
	if !named {
		name = "log"
	}
	fields := Fields{"level": level, "text": text}
	if err != nil {
		fields["error"] = err.Error()
	}
	for _, list := range [][]any{s.values, values} {
		for i := 0; i+1 < len(list); i += 2 {
			key := fmt.Sprint(list[i])
			if key == "resourceName" || key == "plugin" {
				key = "resource"
			}
			if fields[key] == nil && key != "id" {
				fields[key] = plain(list[i+1])
			}
		}
	}
	event(name, fields)
	s.noticed()
}

func plain(value any) any {
	switch value := value.(type) {
	case nil, bool, int, int32, int64, float64, string, []string:
		return value
	case error:
		return value.Error()
	default:
		return fmt.Sprint(value)
	}
}

func takeLog(verbosity int, all bool, noticed func()) klog.Logger {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", fmt.Sprint(verbosity))
	logger := logr.New(&logSink{verbosity: verbosity, all: all, noticed: noticed})
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return logger
}
