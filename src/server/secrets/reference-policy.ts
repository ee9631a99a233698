/**
 * What records may refer to on this node. `listed`: records come from a registry that others write to. `user_owned`:
 * they are the user's own files, read by a process of the same user.
 */
export interface ReferencePolicy {
  readonly mode: 'listed' | 'user_owned';
  /** Variable names that the node's config allows on top; naming a model key here is the only way to allow one. */
  readonly names: readonly string[];
  /** Files, or directories when they end with `/`, that `auth_ref = "file:…"` may name. Absolute. */
  readonly paths: readonly string[];
  /** Names of the variables that configured backends take their api_key from. */
  readonly backendKeyNames: readonly string[];
}

const OPEN_VARIABLE_PREFIX = 'MCP_';

/** Keys of model providers under their usual names. */
export const modelKeyNames: readonly string[] = [
  'OPENAI_API_KEY',
  'OPENAI_ADMIN_KEY',
  'AZURE_OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'ANTHROPIC_AUTH_TOKEN',
  'GEMINI_API_KEY',
  'GOOGLE_API_KEY',
  'MISTRAL_API_KEY',
  'GROQ_API_KEY',
  'DEEPSEEK_API_KEY',
  'OPENROUTER_API_KEY',
  'TOGETHER_API_KEY',
  'XAI_API_KEY',
  'COHERE_API_KEY',
  'DASHSCOPE_API_KEY',
  'MOONSHOT_API_KEY',
];

export function mayReferToVariable(name: string, policy: ReferencePolicy): boolean {
  if (policy.names.includes(name)) return true;
  if (isModelKey(name, policy)) return false;
  return policy.mode === 'user_owned' || name.startsWith(OPEN_VARIABLE_PREFIX);
}

/**
 * Decides by the path as written. Where it may be a symbolic link, ask again with the real path before reading.
 */
export function mayReferToFile(path: string, policy: ReferencePolicy): boolean {
  if (policy.mode === 'user_owned') return true;
  if (!path.startsWith('/') || path.split('/').some((part) => part === '.' || part === '..')) return false;
  return policy.paths.some((allowed) =>
    allowed.endsWith('/') ? path.length > allowed.length && path.startsWith(allowed) : path === allowed,
  );
}

// Some systems look variables up without regard to case, so another spelling must not get round the list.
function isModelKey(name: string, policy: ReferencePolicy): boolean {
  const upper = name.toUpperCase();
  return modelKeyNames.includes(upper) || policy.backendKeyNames.some((key) => key.toUpperCase() === upper);
}
