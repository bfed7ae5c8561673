{{- define "member.name" -}}
member-agent
{{- end }}

{{/* Labels by which our pods are found; the component comes beside them. */}}
{{- define "member.selector" -}}
app.kubernetes.io/name: {{ include "member.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "member.labels" -}}
{{ include "member.selector" . }}
{{ include "member.common" . }}
{{- end }}

{{/* Labels of what is not a program of ours: no selector matches them. */}}
{{- define "member.common" -}}
app.kubernetes.io/part-of: volcano-federation
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "member.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What the restricted Pod Security standard asks for, and nothing writable but what is mounted for it. */}}
{{- define "member.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "member.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Settings of the agent: those given, and what follows from other values. */}}
{{- define "member.settings" -}}
{{- $own := dict "mode" .Values.mode "provider" .Values.provider "region" .Values.region "zones" .Values.zones "labels" .Values.labels -}}
{{- if .Values.admission.enabled -}}
{{- $_ := set $own "admission" (dict "service" (include "member.name" .) "namespace" .Release.Namespace "port" (int .Values.admission.port) "secret" "member-agent-webhook") -}}
{{- end -}}
{{- if .Values.priceSheet -}}
{{- $_ := set $own "offer" .Values.priceSheet -}}
{{- end -}}
{{- if .Values.channel.hubs -}}
{{- $files := dict "ca" "/etc/channel/ca.crt" "certificate" "/etc/channel/tls.crt" "key" "/etc/channel/tls.key" -}}
{{- $_ := set $own "channel" (merge (dict "hubs" .Values.channel.hubs "ca_pins" .Values.channel.caPins) $files) -}}
{{- end -}}
{{- if .Values.scheduler.configuration -}}
{{- $_ := set $own "scheduling" (dict "configuration" "/etc/member-agent/scheduler.conf") -}}
{{- end -}}
{{- mergeOverwrite $own (deepCopy .Values.settings) | toYaml -}}
{{- end }}
