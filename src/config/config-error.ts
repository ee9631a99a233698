/** A file, variable or flag of the configuration cannot be used. The message names it, the field, and what to do. */
export class ConfigError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConfigError';
  }
}
