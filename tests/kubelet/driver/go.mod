module kubelet.test/driver

go 1.24.0

require (
	github.com/go-logr/logr v1.4.2
	golang.org/x/sys v0.31.0
	k8s.io/api v0.34.4
	k8s.io/apimachinery v0.34.4
	k8s.io/klog/v2 v2.130.1
)
