package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/ratelimit/shared"
	"github.com/sloengine/sloengine/reliability/redisconn"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// redisConfig is the Redis that shared limits and dead letters may use: one server, a
// master that sentinels watch over, or a cluster.
type redisConfig struct {
	Address   string   `yaml:"address"`   // host:port of the only server
	Addresses []string `yaml:"addresses"` // instead: of sentinels, or of some servers of a cluster
	Cluster   bool     `yaml:"cluster"`

	SentinelMaster       string `yaml:"sentinel_master"` // its name
	SentinelUsername     string `yaml:"sentinel_username"`
	SentinelPasswordFile string `yaml:"sentinel_password_file" is:"file"`

	// connections at most, to each server; 0: 10 for each processor
	PoolSize     int           `yaml:"pool_size" min:"0" max:"10000"`
	Username     string        `yaml:"username"`
	PasswordFile string        `yaml:"password_file" is:"file"` // read again for each connection
	DB           int           `yaml:"db" min:"0" max:"65535"`
	TLS          *tlsConfig    `yaml:"tls"`
	Prefix       string        `yaml:"prefix"`                       // of all keys
	Timeout      time.Duration `yaml:"timeout" min:"10ms" max:"10s"` // of one call
}

func (r *redisConfig) prefill(*Config) {
	r.Prefix, r.Timeout = "sloengine", 100*time.Millisecond
}

var redisPrefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

func (r *redisConfig) check(f *yamldoc.Decoder) {
	if r == nil {
		return
	}
	switch several := len(r.Addresses) > 0; {
	case r.Cluster && r.SentinelMaster != "":
		f.Errorf("redis.sentinel_master", "remove one of them", "cluster and sentinel_master exclude each other")
	case several != (r.Cluster || r.SentinelMaster != ""):
		f.Errorf("redis.addresses", "set address for a single server",
			"addresses requires cluster or sentinel_master, and each of these requires addresses")
	case several && r.Address != "":
		f.Errorf("redis.address", "remove one of them", "address and addresses exclude each other")
	case !several && r.Address == "" && !f.Has("redis.address"):
		f.Errorf("redis.address", "", "missing")
	case !several && !f.Broken("redis.address"):
		checkAddress(f, "redis.address", r.Address)
	}
	for i, a := range r.Addresses {
		checkAddress(f, item("redis.addresses", i), a)
	}
	if r.Cluster && r.DB != 0 {
		f.Errorf("redis.db", "remove it", "a cluster has only database 0")
	}
	checkPassword(f, "redis.sentinel_", r.SentinelUsername, r.SentinelPasswordFile)
	if !redisPrefix.MatchString(r.Prefix) {
		f.Errorf("redis.prefix", "", "must be 1 to 64 letters, digits, '_', '.', ':' and '-'")
	}
	checkPassword(f, "redis.", r.Username, r.PasswordFile)
	if r.TLS != nil {
		r.TLS.check(f, "redis.tls")
	}
}

func checkAddress(f *yamldoc.Decoder, path, address string) {
	_, port, err := net.SplitHostPort(address)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > 65535 {
		f.Errorf(path, "want host:port, such as 127.0.0.1:6379", "invalid address %q", address)
	}
}

func checkPassword(f *yamldoc.Decoder, path, username, file string) {
	if file != "" {
		if _, err := readSecret(file, 1); err != nil {
			f.Errorf(path+"password_file", "", "%v", err)
		}
	} else if username != "" {
		f.Errorf(path+"username", "add password_file", "username requires a password")
	}
}

// RedisOptions are those of the client for all that is in Redis, tuned for limits. They
// are nil without a redis section.
func (c *Config) RedisOptions() (*redisconn.Options, error) {
	r := c.Redis
	if r == nil {
		return nil, nil
	}
	o := &redisconn.Options{Addrs: []string{r.Address}, DB: r.DB, PoolSize: r.PoolSize, Name: "sloengine"}
	if len(r.Addresses) > 0 {
		o.Addrs, o.Cluster, o.Master, o.Sentinel.User = r.Addresses, r.Cluster, r.SentinelMaster, r.SentinelUsername
	}
	if r.SentinelPasswordFile != "" {
		password, err := readSecret(r.SentinelPasswordFile, 1)
		if err != nil {
			return nil, fmt.Errorf("redis.sentinel_password_file: %w", err)
		}
		o.Sentinel.Password = string(password)
	}
	shared.Tune(o, r.Timeout)
	if r.PasswordFile != "" {
		o.Login = func() (string, string, error) {
			password, err := readSecret(r.PasswordFile, 1)
			if err != nil {
				return "", "", fmt.Errorf("redis.password_file: %w", err)
			}
			return r.Username, string(password), nil
		}
	}
	if r.TLS != nil {
		var err error
		if o.TLS, err = r.TLS.enabled(); err != nil {
			return nil, fmt.Errorf("redis.tls: %w", err)
		}
		if o.TLS.ServerName == "" && r.Address != "" {
			o.TLS.ServerName, _, _ = net.SplitHostPort(r.Address)
		}
	}
	return o, nil
}

// RedisKeys is the prefix of one kind of keys. The braces keep them in one slot of a
// cluster.
func (c *Config) RedisKeys(kind string) string { return "{" + c.Redis.Prefix + ":" + kind + "}" }

// tlsConfig says how to trust a server. The zero value is as the system does.
type tlsConfig struct {
	CAFile     string `yaml:"ca_file" is:"file"`
	CertFile   string `yaml:"cert_file" is:"file"` // of the client
	KeyFile    string `yaml:"key_file" is:"file"`
	ServerName string `yaml:"server_name"`
	Insecure   bool   `yaml:"insecure_skip_verify"`
}

// check also takes nil, a section that is not there.
func (t *tlsConfig) check(f *yamldoc.Decoder, path string) {
	if t == nil {
		return
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		f.Errorf(path, "set both, or none", "cert_file and key_file must be set together")
		return
	}
	if t.Insecure && t.CAFile != "" {
		f.Errorf(path+".ca_file", "remove one of them", "ca_file has no effect with insecure_skip_verify")
	}
	if _, err := t.client(); err != nil {
		f.Errorf(path, "", "%v", err)
	}
}

// client is nil if nothing is set.
func (t *tlsConfig) client() (*tls.Config, error) {
	if *t == (tlsConfig{}) {
		return nil, nil
	}
	o := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
	if t.CAFile != "" {
		pem, err := readSmall(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		o.RootCAs = x509.NewCertPool()
		if !o.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s contains no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := readSmall(t.CertFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		key, err := readSmall(t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("key_file: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		o.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}

// readSecret gives the content of a file without the white space around it.
func readSecret(name string, atLeast int) ([]byte, error) {
	data, err := readSmall(name)
	if err != nil {
		return nil, err
	}
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return nil, errors.New(name + " is empty")
	}
	if len(data) < atLeast {
		return nil, fmt.Errorf("%s has %d bytes (want at least %d)", name, len(data), atLeast)
	}
	return data, nil
}

// maxSmall bounds files with secrets and certificates.
const maxSmall = 1 << 20

func readSmall(name string) ([]byte, error) { return fsys.ReadFile(name, maxSmall) }
