// Package sockaddr declares what Alertmanager's cluster names of the package: see internal/unlinked/README.md.
package sockaddr

import "errors"

var errNoCluster = errors.New("this build does not form clusters")

// GetPrivateIP returns an error.
func GetPrivateIP() (string, error) { return "", errNoCluster }

// GetPublicIP returns an error.
func GetPublicIP() (string, error) { return "", errNoCluster }
