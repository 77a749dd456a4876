package config

import (
	"errors"
	"os"
	"strings"

	"github.com/sloengine/sloengine/alerts/receivers"
	"github.com/sloengine/sloengine/reliability/mail"
	"github.com/sloengine/sloengine/slo/yamldoc"
)

// smtpConfig is the mail server that relays mails.
type smtpConfig struct {
	Smarthost    string    `yaml:"smarthost" is:"required"` // host:port
	From         string    `yaml:"from" is:"required"`
	Username     string    `yaml:"username"`
	PasswordFile string    `yaml:"password_file" is:"file"`
	PasswordEnv  string    `yaml:"password_env"` // name of an environment variable
	TLS          mail.TLS  `yaml:"tls" one:"starttls tls none"`
	Hello        string    `yaml:"hello"`      // name of this machine; "": its host name
	TLSConfig    tlsConfig `yaml:"tls_config"` // beyond the authorities of the system
}

func (s *smtpConfig) check(f *yamldoc.Decoder) {
	if s == nil {
		return
	}
	const path = "smtp"
	if !f.Broken(path + ".smarthost") {
		if err := mail.CheckSmarthost(s.Smarthost); err != nil {
			f.Errorf(path+".smarthost", "as in mail.example.org:587", "%v", err)
		}
	}
	if !f.Broken(path + ".from") {
		if err := mail.CheckAddress(s.From); err != nil {
			f.Errorf(path+".from", "as in SLO reports <slo@example.org>", "%v", err)
		}
	}
	if strings.ContainsAny(s.Hello, " \t\r\n/@:") {
		f.Errorf(path+".hello", "as in engine.example.org", "%q is not a host name", s.Hello)
	}
	secret := s.PasswordFile+s.PasswordEnv != ""
	switch {
	case s.Username != "":
		checkSource(f, path+".password", s.PasswordFile, s.PasswordEnv, true)
		if s.TLS == mail.NoTLS {
			f.Errorf(path+".tls", "choose starttls or tls, or remove username",
				"the password would cross the network unencrypted")
		}
	case secret:
		f.Errorf(path+".username", "set it, or remove the password", "missing")
	}
	s.TLSConfig.check(f, path+".tls_config")
}

// MailServer is the mail server, nil if there is none. The password is read with each mail.
func (c *Config) MailServer() (*mail.Server, error) {
	s := c.SMTP
	if s == nil {
		return nil, nil
	}
	t, err := s.TLSConfig.client()
	if err != nil {
		return nil, err
	}
	return &mail.Server{
		Smarthost: s.Smarthost, From: s.From, Username: s.Username, Password: secretSource(s.PasswordFile, s.PasswordEnv),
		TLS: s.TLS, TLSConfig: t, Hello: s.Hello,
	}, nil
}

// receivers is the mail server as the receivers of notifications take it; nil if there is none.
func (s *smtpConfig) receivers() *receivers.MailServer {
	if s == nil {
		return nil
	}
	out := &receivers.MailServer{
		Smarthost: s.Smarthost, From: s.From, Hello: s.Hello, Username: s.Username, PasswordFile: s.PasswordFile,
		RequireTLS: s.TLS != mail.NoTLS, ImplicitTLS: s.TLS == mail.ImplicitTLS,
		CAFile: s.TLSConfig.CAFile, CertFile: s.TLSConfig.CertFile, KeyFile: s.TLSConfig.KeyFile,
		ServerName: s.TLSConfig.ServerName, Insecure: s.TLSConfig.Insecure,
	}
	if s.PasswordEnv != "" {
		out.Password = os.Getenv(s.PasswordEnv)
	}
	return out
}

// secretSource reads a secret from a file or the environment each time; nil if neither is named.
func secretSource(file, env string) func() (string, error) {
	switch {
	case file != "":
		return func() (string, error) {
			data, err := readSecret(file, 1)
			return string(data), err
		}
	case env != "":
		return func() (string, error) {
			if v := os.Getenv(env); v != "" {
				return v, nil
			}
			return "", errors.New("the environment variable " + env + " is empty")
		}
	}
	return nil
}
