module gopkg.in/yaml.v2

go 1.26.0

require go.yaml.in/yaml/v2 v2.4.4
