// Command control is what a kubelet registers with, of Kubernetes 1.37: one
// program, because what the three of them have in common is then linked once.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var programs = map[string]func(){
	"etcd":           func() { etcdmain.Main(os.Args) },
	"kube-apiserver": func() { run(apiserver.NewAPIServerCommand()) },
	"kube-scheduler": func() { run(scheduler.NewSchedulerCommand()) },
	"key":            key,
}

func main() {
	if len(os.Args) > 1 {
		if program := programs[os.Args[1]]; program != nil {
			os.Args = os.Args[1:]
			program()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "control: etcd, kube-apiserver or kube-scheduler and its flags; or key")
	os.Exit(2)
}

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

// key prints a new private key, which an API server needs to sign tokens.
func key() {
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(made)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(text)
}
