import type { ClientCapabilities } from '@modelcontextprotocol/client';
import type { McpServerRecord } from '../../../../server/records/record.ts';

/** What a server is told that it may ask of us: what its record permits, and by default nothing. */
export function capabilitiesOf({ client_features: features }: McpServerRecord): ClientCapabilities {
  const { elicitation: modes, roots } = features;
  const form = modes.includes('form') ? { form: {} } : {};
  const url = modes.includes('url') ? { url: {} } : {};
  return {
    ...(modes.length === 0 ? {} : { elicitation: { ...form, ...url } }),
    ...(roots.length === 0 ? {} : { roots: {} }),
  };
}
