"""The laboratory: the embedded world, the recipes of its models, and the papers measured again.

It stands above the product and reaches it through entry points alone (:mod:`viper.plugins`); the
product works without it.
"""
