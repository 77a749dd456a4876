package kafkatest

import (
	"crypto/rand"
	_ "embed" // the version of Kafka
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/reliability/nettest"
)

//go:embed pom.xml
var pom string

var version = regexp.MustCompile(`(?m)^  <version>(.*)</version>`).FindStringSubmatch(pom)[1]

// The listeners of a node.
const (
	plaintext  = "PLAIN"
	sasl       = "SASL"
	secure     = "SECURE"
	both       = "BOTH" // SASL over TLS
	proxied    = "PROXIED"
	controller = "CONTROLLER"
)

// requireKafka finds the folder that scripts/test-kafka filled.
func requireKafka(t testing.TB) (home string) {
	t.Helper()
	if os.Getenv("SLOENGINE_QUICK") != "" {
		t.Skip("make quick runs no Kafka")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("Java is not installed, so there is no Kafka")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	home = filepath.Join(cache, "sloengine-test", "kafka-"+version)
	if _, err := os.Stat(filepath.Join(home, "bootstrap.checkpoint")); err != nil {
		t.Skipf("no Kafka in %s: scripts/test-kafka fetches it with Maven", home)
	}
	return home
}

// node is one process.
type node struct {
	id         int
	home, dir  string
	address    map[string]string // by listener
	advertised string            // instead of the address of the listener PROXIED
	cmd        *exec.Cmd         // nil while it is down
}

func newNode(t testing.TB, home, dir string, id int, o Options) *node {
	t.Helper()
	n := &node{id: id, home: home, dir: dir, address: map[string]string{}}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o700))
	listeners := []string{plaintext, controller}
	for name, wanted := range map[string]bool{sasl: o.SASL, secure: o.TLS, both: o.SASL && o.TLS, proxied: o.Proxied} {
		if wanted {
			listeners = append(listeners, name)
		}
	}
	for _, name := range listeners {
		n.address[name] = nettest.FreeAddress(t)
	}
	return n
}

// configure writes the settings and formats the data folder as Kafka's own tool would, without starting Java for it.
func (n *node) configure(t testing.TB, c *Cluster) {
	t.Helper()
	var listeners, advertised, voters, protocols []string
	for _, name := range slices.Sorted(maps.Keys(n.address)) {
		listeners = append(listeners, name+"://"+n.address[name])
		protocol := "PLAINTEXT"
		switch name {
		case sasl:
			protocol = "SASL_PLAINTEXT"
		case secure:
			protocol = "SSL"
		case both:
			protocol = "SASL_SSL"
		}
		protocols = append(protocols, name+":"+protocol)
		switch name {
		case controller:
		case proxied:
			advertised = append(advertised, name+"://"+n.advertised)
		default:
			advertised = append(advertised, name+"://"+n.address[name])
		}
	}
	for _, other := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@%s", other.id, other.address[controller]))
	}
	replicas := fmt.Sprint(min(len(c.nodes), 3))
	p := map[string]string{
		"process.roles": "broker,controller", "node.id": fmt.Sprint(n.id), "log.dirs": filepath.Join(n.dir, "data"),
		"controller.quorum.voters": strings.Join(voters, ","), "controller.listener.names": controller,
		"inter.broker.listener.name": plaintext,
		"listeners":                  strings.Join(listeners, ","), "advertised.listeners": strings.Join(advertised, ","),
		"listener.security.protocol.map": strings.Join(protocols, ","),
		// A node that died is noticed in a second or two, not in nine.
		"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300", "controlled.shutdown.enable": "false",
		"controller.quorum.election.timeout.ms": "500", "controller.quorum.fetch.timeout.ms": "1500",
		"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500",
		"offsets.topic.replication.factor": replicas, "offsets.topic.num.partitions": "1",
		"transaction.state.log.replication.factor": replicas, "transaction.state.log.min.isr": "1",
		"transaction.state.log.num.partitions": "1",
		"num.network.threads":                  "1", "num.io.threads": "2", "background.threads": "1",
		"log.cleaner.enable":          "false",
		"log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "100",
	}
	if c.o.SASL {
		plainLogin := "org.apache.kafka.common.security.plain.PlainLoginModule required"
		for user, password := range map[string]string{Alice: AlicePassword, Mallory: MalloryPassword} {
			plainLogin += fmt.Sprintf(` user_%s="%s"`, user, password)
		}
		scram := "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		for _, name := range []string{sasl, both} {
			of := "listener.name." + strings.ToLower(name) + "."
			p = merged(p, map[string]string{
				of + "plain.sasl.jaas.config": plainLogin + ";", of + "scram-sha-256.sasl.jaas.config": scram,
				of + "scram-sha-512.sasl.jaas.config": scram,
			})
		}
		p = merged(p, map[string]string{
			"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
			"authorizer.class.name":   "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":             "User:ANONYMOUS;User:" + Alice,
		})
	}
	if c.o.TLS {
		for _, name := range []string{secure, both} {
			of := "listener.name." + strings.ToLower(name) + ".ssl."
			p = merged(p, map[string]string{
				of + "keystore.type": "PEM", of + "keystore.key": string(c.Key), of + "keystore.certificate.chain": string(c.CA),
				of + "truststore.type": "PEM", of + "truststore.certificates": string(c.CA), of + "client.auth": "requested",
			})
		}
	}
	p = merged(p, c.o.Properties)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&text, "%s=%s\n", k, strings.ReplaceAll(p[k], "\n", `\n`))
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	checkpoint, err := os.ReadFile(filepath.Join(n.home, "bootstrap.checkpoint"))
	require.NoError(t, err)
	for name, data := range map[string]string{
		"server.properties":         text.String(),
		"data/bootstrap.checkpoint": string(checkpoint),
		"data/meta.properties": fmt.Sprintf("version=1\ncluster.id=sloengineTestCluster0w\nnode.id=%d\ndirectory.id=%s\n",
			n.id, "A"+base64.RawURLEncoding.EncodeToString(id[:])[1:]), // one that begins with "-" is refused
		"log4j.properties": "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n" +
			"log4j.appender.out.layout=org.apache.log4j.PatternLayout\nlog4j.appender.out.layout.ConversionPattern=%d{ISO8601}" +
			" %p %c{1} %m%n\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(data), 0o600))
	}
}

// start begins the process. Its log is appended to the same file.
func (n *node) start(t testing.TB) {
	t.Helper()
	require.Nil(t, n.cmd, "Kafka node %d runs already", n.id)
	out, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Djava.io.tmpdir="+n.dir,
		"-XX:SharedArchiveFile="+filepath.Join(n.home, "classes.jsa"), "-Xlog:cds=off", "-Xlog:cds+dynamic=off",
		"-Dlog4j.configuration=file:"+filepath.Join(n.dir, "log4j.properties"),
		"-cp", filepath.Join(n.home, "lib", "*"), "kafka.Kafka", filepath.Join(n.dir, "server.properties"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	n.cmd = cmd
}

func (n *node) kill() { n.end(syscall.SIGKILL) }
func (n *node) stop() { n.end(syscall.SIGTERM) }

func (n *node) end(with syscall.Signal) {
	if n.cmd == nil {
		return
	}
	if n.cmd.ProcessState == nil {
		_ = n.cmd.Process.Signal(with)
		_ = n.cmd.Wait()
	}
	n.cmd = nil
}

// exited reports whether the process ended by itself.
func (n *node) exited() bool {
	if n.cmd == nil {
		return false
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(n.cmd.Process.Pid, &status, syscall.WNOHANG|syscall.WNOWAIT, nil)
	return err == nil && pid == n.cmd.Process.Pid
}

// log returns the end of the output of the process.
func (n *node) log() string {
	raw, err := os.ReadFile(filepath.Join(n.dir, "log"))
	if err != nil {
		return err.Error()
	}
	const most = 8000
	return string(raw[max(0, len(raw)-most):])
}
