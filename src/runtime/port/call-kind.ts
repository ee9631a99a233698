/** What of a server is asked for: a tool is called, a resource is read by its uri, a prompt is got by its name. */
export type CallKind = 'tool' | 'resource' | 'prompt';
