{{- define "federation.name" -}}
federation-hub
{{- end }}

{{- define "federation.selector" -}}
app.kubernetes.io/name: {{ include "federation.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "federation.labels" -}}
{{ include "federation.selector" . }}
{{ include "federation.common" . }}
{{- end }}

{{/* Labels of what is not the hub itself: no selector matches them. */}}
{{- define "federation.common" -}}
app.kubernetes.io/part-of: volcano-federation
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "federation.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What the restricted Pod Security standard asks for, and nothing writable but what is mounted for it. */}}
{{- define "federation.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "federation.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Settings of the hub: those given, and what follows from other values. */}}
{{- define "federation.settings" -}}
{{- $own := dict "namespace" .Release.Namespace "cluster_objects" false -}}
{{- if .Values.admission.enabled -}}
{{- $_ := set $own "admission" (dict "service" (include "federation.name" .) "namespace" .Release.Namespace "port" (int .Values.admission.port) "secret" "federation-hub-webhook" "trusted" (list (printf "system:serviceaccount:%s:%s" .Release.Namespace (include "federation.name" .)))) -}}
{{- end -}}
{{- if .Values.channel.enabled -}}
{{- $shown := dict "certificate" "/etc/channel/tls.crt" "key" "/etc/channel/tls.key" -}}
{{- $agents := merge (dict "port" (int .Values.channel.agentsPort) "client_ca" "/etc/channel/agents-ca.crt") $shown -}}
{{- $_ := set $own "channel" (dict "agents" $agents "people" (merge (dict "port" (int .Values.channel.peoplePort)) $shown)) -}}
{{- end -}}
{{- if .Values.metricsTls.enabled -}}
{{- $_ := set $own "metrics" (dict "port" (int .Values.metricsTls.port) "certificate" "/etc/metrics/tls.crt" "key" "/etc/metrics/tls.key") -}}
{{- end -}}
{{- mergeOverwrite $own (deepCopy .Values.settings) | toYaml -}}
{{- end }}
