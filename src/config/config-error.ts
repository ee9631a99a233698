/** Unusable config file, variable or flag. The message names the source, the field and the fix. */
export class ConfigError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConfigError';
  }
}
