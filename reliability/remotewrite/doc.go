// Package remotewrite sends the series of a registry to a server that takes Prometheus remote write, for an engine that
// cannot be scraped. It speaks version 2 of the protocol, and version 1 with servers that know no other.
//
// Every interval it takes one value of each series, all at the same time stamp, and saves them as one file. A second
// loop sends the files in the order of their times and deletes each when the server has all of it. So the position
// survives a restart, and a series never goes back in time. After a crash, the file that was being sent is sent again:
// the server has seen some of these samples, with the same time and value, which changes nothing. Age and bytes of the
// files are bounded, and what is given up is counted.
//
// It does not know the series, nor how they are counted.
package remotewrite
