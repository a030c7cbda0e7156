package driver

import (
	"net"
	"reflect"
	"sync"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// What follows looks at fields of the kubelet that have no accessor. A minor
// that renames one makes this panic, which is meant: a test must not go on
// with a view that is not the kubelet's.

func inside(value reflect.Value, path ...string) reflect.Value {
	for _, name := range path {
		for value.Kind() == reflect.Interface || value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if value = value.FieldByName(name); !value.IsValid() {
			panic("this kubelet has no field " + name)
		}
		value = reflect.NewAt(value.Type(), unsafe.Pointer(value.UnsafeAddr())).Elem()
	}
	return value
}

func locked[T any](manager any, look func() T) T {
	mutex := inside(reflect.ValueOf(manager), "mutex").Addr().Interface().(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	return look()
}

// view is all that the manager knows of its resources.
func view(manager any) map[string]Fields {
	return locked(manager, func() map[string]Fields {
		resources := map[string]Fields{}
		for field, word := range map[string]string{
			"healthyDevices": "healthy", "unhealthyDevices": "unhealthy", "allocatedDevices": "allocated",
		} {
			for name, ids := range inside(reflect.ValueOf(manager), field).Interface().(map[string]sets.Set[string]) {
				if resources[name] == nil {
					resources[name] = Fields{"healthy": []string{}, "unhealthy": []string{}, "allocated": []string{}}
				}
				resources[name][word] = sets.List(ids)
			}
		}
		endpoints := inside(reflect.ValueOf(manager), "endpoints")
		for _, key := range endpoints.MapKeys() {
			if resource := resources[key.String()]; resource != nil {
				stop := stopTime(endpoints, key).Interface().(time.Time)
				resource["stopped"] = !stop.IsZero()
			}
		}
		return resources
	})
}

// stopTime is where the endpoint of a resource keeps since when it is stopped.
func stopTime(endpoints, key reflect.Value) reflect.Value {
	copied := reflect.New(endpoints.Type().Elem()).Elem()
	copied.Set(endpoints.MapIndex(key))
	return inside(copied, "e", "stopTime")
}

// age makes a stopped resource look stopped for longer: the grace period of
// five minutes is a constant.
func age(manager any, resource string, seconds float64) bool {
	return locked(manager, func() bool {
		endpoints, key := inside(reflect.ValueOf(manager), "endpoints"), reflect.ValueOf(resource)
		if !endpoints.MapIndex(key).IsValid() {
			return false
		}
		stop := stopTime(endpoints, key).Addr().Interface().(*time.Time)
		if stop.IsZero() {
			return false
		}
		*stop = stop.Add(-time.Duration(seconds * float64(time.Second)))
		return true
	})
}

// clients counts what the registry holds for each resource; a connection that
// is leaked is not in it any more.
func clients(manager any) map[string]int {
	server := inside(reflect.ValueOf(manager), "server")
	mutex := inside(server, "mutex").Addr().Interface().(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	counts := map[string]int{}
	for entries := inside(server, "clients").MapRange(); entries.Next(); {
		counts[entries.Key().String()] = 1
		if entries.Value().Kind() == reflect.Slice { // from 1.37
			counts[entries.Key().String()] = entries.Value().Len()
		}
	}
	return counts
}

// keepSocket has the registry leave kubelet.sock behind when it stops, as a
// kubelet does that exits.
func keepSocket(manager any) {
	server := inside(reflect.ValueOf(manager), "server")
	if server = inside(server, "grpc"); server.IsNil() {
		return
	}
	mutex := inside(server, "mu").Addr().Interface().(*sync.Mutex)
	mutex.Lock()
	defer mutex.Unlock()
	for _, key := range inside(server, "lis").MapKeys() {
		listener := inside(key, "Listener").Interface().(net.Listener)
		listener.(*net.UnixListener).SetUnlinkOnClose(false)
	}
}

func count(list v1.ResourceList, name v1.ResourceName) int64 {
	quantity := list[name]
	return quantity.Value()
}
