// Package public serves what anybody may see: the public status page with its incidents, the same as JSON, in
// Statuspage's form and as a feed, and badges. Labels of an SLO choose which services are public, and people publish
// incidents. It asks for no permission, and says nothing of what was not chosen.
package public
